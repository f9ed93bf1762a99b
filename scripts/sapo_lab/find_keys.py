"""`scripts/find-keys`: refuse files that look as if they held a private key.

PEM blocks, keystores, 64 hex digits that are called a key or a secret.

Run by `make lint` over all tracked files, and by pre-commit over the changed ones.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

PATTERNS = {
    "a PEM private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an Ethereum keystore": re.compile(rb'"ciphertext"\s*:\s*"[0-9a-fA-F]{64}"'),
    "a private key in hex": re.compile(
        rb"""(?i)(priv(ate)?[_ ]?key|secret|mnemonic)[\w"']*\s*[:=]\s*["']?(0x)?[0-9a-f]{64}"""
    ),
}


def main() -> int:
    """Exit status: 0 nothing found, 1 something, named on standard output."""
    parser = argparse.ArgumentParser(prog="scripts/find-keys", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="(all files that git tracks)")
    names = parser.parse_args().files or subprocess.run(
        ["git", "ls-files", "-z"], capture_output=True, check=True, text=True
    ).stdout.split("\0")
    found = [
        f"{name} holds what looks like {what}; take it out (and treat the key as lost if it was ever used)"
        for name in names
        if name and (path := Path(name)).is_file()
        for what, pattern in PATTERNS.items()
        if pattern.search(path.read_bytes())
    ]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
