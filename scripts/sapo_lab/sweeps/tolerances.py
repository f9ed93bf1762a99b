"""`scripts/tolerances`: how far honest passes over the same tokens lie apart, and what each tolerance would mean.

For each policy and sharpness it makes honest records, recomputes them in processes of different settings (what the
processor's libraries may use, threads, arrangements, float64), and writes a line of JSON for each part and setting into
rows.jsonl of its folder. What is there already is not made again. Ends with 1 where an honest record was rejected, or
void at the tolerances in force.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sapo_devnet.checkout import ROOT

if TYPE_CHECKING:
    from sapo_lab.sweeps.tolerance_pass import Setting
    from sapo_lab.sweeps.tolerance_rows import Key, Row

SHARPNESSES = ("1", "4", "16", "adapter")


def policy_folder(name: str, folder: Path) -> Path:
    """`pocket`, `smollm2`, `tiny` (a random one, made in `folder`), or a model's folder."""
    from sapo_devnet.pocket import pocket_policy
    from sapo_devnet.smollm2 import smollm2
    from sapo_devnet.testkit.tiny_policy import tiny_folder

    match name:
        case "pocket":
            return pocket_policy(ROOT)
        case "smollm2":
            return smollm2(ROOT)
        case "tiny":
            return found if (found := folder / "tiny").exists() else tiny_folder(found)
    return Path(name).resolve()


def sweep(policy: str, chosen: Sequence[str], options: argparse.Namespace, rows: "dict[Key, Row]") -> None:
    """One policy in the chosen settings, at all sharpnesses. New rows go into `rows` and to the end of rows.jsonl."""
    from sapo_lab.sweeps.tolerance_batches import Part
    from sapo_lab.sweeps.tolerance_pass import MADE, SETTINGS, file_of, run
    from sapo_verifier.bases import digest_of_folder

    source = policy_folder(policy, options.folder)
    digest = digest_of_folder(source).hex()[:8]
    folders = {each: options.folder / f"{source.name}-{digest}-{each}" for each in options.sharpness.split(",")}
    settings = [setting for setting in SETTINGS if setting.name == MADE or setting.name in chosen]
    works = []
    for sharpness, kept in folders.items():
        kept.mkdir(parents=True, exist_ok=True)
        if sum(Part.read(file).positions for file in kept.glob("part-*.json")) < options.positions:
            more = {"positions": options.positions, "slots": options.slots}
            works.append({"sharpness": sharpness, "kept": str(kept), **more})
    if works:
        print(f"{policy}: honest records", file=sys.stderr, flush=True)
        run(source, works, settings[0])
    for setting in settings:
        works = []
        for sharpness, kept in folders.items():
            if parts := [number for number in numbers(kept) if not file_of(kept, setting, number).exists()]:
                works.append({"sharpness": sharpness, "kept": str(kept), "parts": parts})
        if works:
            print(f"{policy}: {setting.name}", file=sys.stderr, flush=True)
            run(source, works, setting)
    for sharpness, kept in folders.items():
        count(policy, sharpness, kept, settings, options.folder / "rows.jsonl", rows)


def numbers(kept: Path) -> list[int]:
    """Of the parts that were made."""
    return sorted(int(file.stem.partition("-")[2]) for file in kept.glob("part-*.json"))


def count(
    policy: str, sharpness: str, kept: Path, settings: "Sequence[Setting]", lines: Path, rows: "dict[Key, Row]"
) -> None:
    """The rows that are missing of what the settings' processes left in `kept`."""
    import numpy as np

    from sapo_lab.sweeps.tolerance_batches import Part
    from sapo_lab.sweeps.tolerance_pass import file_of
    from sapo_lab.sweeps.tolerance_rows import ANY_TWO, any_two_row, key_of, setting_row

    honest = [setting.name for setting in settings if setting.honest]
    for number in numbers(kept):
        part = Part.read(kept / f"part-{number}.json")
        found = {setting.name: np.load(file_of(kept, setting, number)) for setting in settings}
        new = {}
        for setting in settings:
            if (policy, sharpness, number, setting.name) not in rows:
                new[setting.name] = setting_row(part, setting, found[setting.name], found[settings[0].name])
        if rows.get((policy, sharpness, number, ANY_TWO), {}).get("compared") != honest:
            new[ANY_TWO] = any_two_row(part, [found[name] for name in honest]) | {"compared": honest}
        with lines.open("a") as file:
            for name, row in new.items():
                row = {"policy": policy, "sharpness": sharpness, "part": number, "setting": name} | row
                rows[key_of(row)] = row
                file.write(json.dumps(row) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where an honest record was rejected or void."""
    parser = argparse.ArgumentParser(prog="scripts/tolerances", description=__doc__.partition("\n")[0])
    words = "pocket, smollm2, tiny, or a model's folder, separated by commas (%(default)s)"
    parser.add_argument("--policies", default="pocket,smollm2", metavar="NAMES", help=words)
    words = "what logits are multiplied by, or `adapter` for a trained one (%(default)s)"
    parser.add_argument("--sharpness", default=",".join(SHARPNESSES), metavar="LIST", help=words)
    parser.add_argument("--settings", metavar="NAMES", help="some of them, beside the one in which records are made")
    words = "of each policy and sharpness, at least (%(default)s)"
    parser.add_argument("--positions", type=int, default=10_000, metavar="N", help=words)
    parser.add_argument("--slots", type=int, default=4, help="groups of eight completions in a part (%(default)s)")
    words = "parts, edges and rows; what is there already is not made again (.tolerances)"
    parser.add_argument("--folder", type=Path, default=ROOT / ".tolerances", help=words)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write docs/results/tolerances.md there")
    options = parser.parse_args(arguments)

    from sapo_lab.sweeps.tolerance_page import found_wrong, page  # loaded late: --help answers at once
    from sapo_lab.sweeps.tolerance_pass import SETTINGS
    from sapo_lab.sweeps.tolerance_rows import read_rows

    names = [setting.name for setting in SETTINGS]
    chosen = options.settings.split(",") if options.settings else names
    if unknown := set(chosen) - set(names):
        parser.error(f"no such setting: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = read_rows(options.folder / "rows.jsonl")
    for policy in options.policies.split(","):
        sweep(policy, chosen, options, rows)
    command = f"scripts/tolerances --policies {options.policies} --sharpness {options.sharpness}"
    some = "" if len(chosen) == len(names) else f' --settings "{",".join(chosen)}"'
    text = page(list(rows.values()), f"{command} --positions {options.positions} --slots {options.slots}{some}")
    if options.page is not None:
        options.page.write_text(text)
    print(text)
    wrong = found_wrong(list(rows.values()))
    for words in wrong:
        print(f"scripts/tolerances: {words}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
