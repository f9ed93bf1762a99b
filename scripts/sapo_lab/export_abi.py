"""`scripts/export-abi`: write the contracts' ABIs and code where the Python programs read them, from forge's build.

abi/NAME.json is canonical, so that a change of an interface shows as a small difference: an array sorted by kind, name
and inputs, object keys sorted, two spaces, one newline at the end. code/NAME.hex is what deploys the contract, without
its constructor's arguments; code/NAME.metadata.json is the compiler's metadata, byte for byte: its hash is in the code.
code/Rounds.layout.json says where `Rounds` keeps what a bundle proves (docs/protocol.md, section 17): the slots of its
storage, and the places of immutables in its code.
"""

import argparse
import json
import re
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
LAYOUT = "Rounds"  # the contract whose layout is written
IMMUTABLE = re.compile(r"^    .*\bimmutable (\w+);$", re.MULTILINE)


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
        if name == LAYOUT:
            yield f"code/{name}.layout.json", json.dumps(layout(artifact), indent=1) + "\n"


def layout(artifact: dict[str, Any]) -> dict[str, Any]:
    """`code`: keccak256 of the deployed code, in which immutables are zeros; `immutables`: the bytes of the code at
    which the words of each begin; `storage`: each variable's slot; `structs`: slot, offset in it and size of each field
    of those that lie in a mapping. Raises UnableError where the build is not that of the sources."""
    from eth_hash.auto import keccak  # --help comes before anything is installed

    deployed, stored = artifact["deployedBytecode"], artifact["storageLayout"]
    # The compiler names immutables by numbers that grow with their place in the file.
    places = [deployed["immutableReferences"][key] for key in sorted(deployed["immutableReferences"], key=int)]
    names = [name for path in artifact["metadata"]["sources"] for name in _immutables(path)]
    if len(names) != len(places):
        raise UnableError("the build is not that of these sources; run `node_modules/.bin/forge build` first")
    structs = {
        kind["label"].rpartition(".")[2]: kind["members"] for kind in stored["types"].values() if "members" in kind
    }
    return {
        "code": "0x" + keccak(bytes.fromhex(deployed["object"].removeprefix("0x"))).hex(),
        "immutables": {
            name: sorted(place["start"] for place in each) for name, each in zip(names, places, strict=True)
        },
        "storage": {each["label"]: int(each["slot"]) for each in stored["storage"]},
        "structs": {
            name: {
                field["label"]: {
                    "slot": int(field["slot"]),
                    "offset": field["offset"],
                    "size": int(stored["types"][field["type"]]["numberOfBytes"]),
                }
                for field in fields
            }
            for name, fields in structs.items()
        },
    }


def _immutables(source: str) -> list[str]:
    return IMMUTABLE.findall((ROOT / source).read_text(encoding="utf-8"))


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
