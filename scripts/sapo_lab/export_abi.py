"""`scripts/export-abi`: write the contracts' ABIs and code where the Python programs read them, from forge's build.

abi/NAME.json is canonical, so that a change of an interface shows as a small difference: an array sorted by kind, name
and inputs, object keys sorted, two spaces, one newline at the end. code/NAME.hex is what deploys the contract, without
its constructor's arguments; code/NAME.metadata.json is the compiler's metadata, byte for byte: its hash is in the code.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sapo_devnet.checkout import ROOT
from sapo_verifier.errors import SapoError, UnableError

BUILD = ROOT / "out"
TARGET = ROOT / "verifier" / "sapo_verifier" / "chain"
CONTRACTS = (
    "Audits",
    "BlockhashBeacon",
    "Disputes",
    "DrandBeacon",
    "Nodes",
    "Proofs",
    "Rewards",
    "Rounds",
    "SapoToken",
)


def canonical(abi: list[dict[str, Any]]) -> str:
    """The same text for the same interface."""

    def order(entry: dict[str, Any]) -> tuple[str, str, str]:
        return (
            str(entry["type"]),
            str(entry.get("name", "")),
            json.dumps(entry.get("inputs", []), sort_keys=True),
        )

    return json.dumps(sorted(abi, key=order), indent=2, sort_keys=True) + "\n"


def exported(build: Path) -> Iterator[tuple[str, str]]:
    """Each file below TARGET with its text. Raises UnableError for a contract that was not compiled."""
    for name in CONTRACTS:
        path = build / f"{name}.sol" / f"{name}.json"
        if not path.is_file():
            raise UnableError(f"{path} is missing; run `node_modules/.bin/forge build` first")
        artifact = json.loads(path.read_text(encoding="utf-8"))
        yield f"abi/{name}.json", canonical(artifact["abi"])
        yield f"code/{name}.hex", artifact["bytecode"]["object"].removeprefix("0x") + "\n"
        yield f"code/{name}.metadata.json", artifact["rawMetadata"]


def main() -> int:
    """Exit status: 0 written, or as they should be; 1 files differ; 3 there is no build to compare with."""
    parser = argparse.ArgumentParser(prog="scripts/export-abi", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs from the build")
    check = parser.parse_args().check
    try:
        stale = _export(check)
    except SapoError as error:
        print(f"export-abi: {error}", file=sys.stderr)
        return error.exit_status
    if check and stale:
        print(f"export-abi: not what the contracts say: {', '.join(stale)}; run scripts/export-abi", file=sys.stderr)
        return 1
    if not check:
        print(f"export-abi: wrote {', '.join(stale)}" if stale else "export-abi: nothing changed")
    return 0


def _export(check: bool) -> list[str]:
    """The names of files that differ from the build; written anew unless `check`."""
    stale = []
    for name, text in exported(BUILD):
        target, data = TARGET / name, text.encode()
        if target.is_file() and target.read_bytes() == data:
            continue
        stale.append(name)
        if not check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    return stale


if __name__ == "__main__":
    sys.exit(main())
