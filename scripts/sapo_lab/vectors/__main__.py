"""`scripts/vectors`: write tests/vectors/protocol.json, literal inputs and outputs of every protocol rule.

They are for programs in any language, and the same bytes every time. Regenerate only when the protocol itself changes;
docs/protocol.md quotes the file.
"""

import argparse
import json
import sys

from sapo_devnet.checkout import ROOT
from sapo_lab.vectors.words import NOTATION

TARGET = ROOT / "tests" / "vectors" / "protocol.json"


def written() -> str:
    """The whole file: a line for each case."""
    from sapo_lab.vectors.documents import answers, bases, documents, records_blocks, samples
    from sapo_lab.vectors.numbers import hashes, intervals, trees
    from sapo_verifier.protocol import VERSION

    lines = [f'"v": {VERSION},\n"notation": {json.dumps(NOTATION, indent=1)}']
    sections = (hashes, trees, intervals, records_blocks, documents, bases, samples, answers)
    for name, cases in (section for some in sections for section in some().items()):
        body = ",\n".join(" " + json.dumps(case) for case in cases)
        lines.append(f'"{name}": [\n{body}\n]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    """Exit status: 0 written, or as it should be; 1 the file differs."""
    parser = argparse.ArgumentParser(prog="scripts/vectors", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file differs")
    if parser.parse_args().check:
        if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == written():
            return 0
        print(
            f"vectors: {TARGET.relative_to(ROOT)} differs from what the code gives; if the protocol was meant to "
            "change, run scripts/vectors and review the difference",
            file=sys.stderr,
        )
        return 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(written(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
