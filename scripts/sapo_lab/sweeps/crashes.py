"""`scripts/crashes`: a node is killed (SIGKILL) at every moment of its loop, one per round, and must go on exactly."""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sapo_devnet.checkout import ROOT
from sapo_devnet.pocket import QUICK_STEPS, pocket_policy

if TYPE_CHECKING:
    from sapo_lab.sweeps.crash_moments import Moment


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 all moments held, 1 one did not, 2 there is no such moment."""
    options = _parser().parse_args(argv)
    from sapo_lab.sweeps.crash_moments import MOMENTS, crashes  # loaded late: --help answers at once

    moments = [moment for moment in MOMENTS if re.search(options.only, moment.words)]
    if not moments:
        print(f"no moment's words match {options.only!r}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("| moment | round | seconds until the round was done |\n|---|---|---|", flush=True)
        try:
            with crashes(folder, pocket_policy(ROOT, steps=QUICK_STEPS)) as run:
                run.ready(moments[0])
                for crash in run.play(moments):
                    print(f"| {_row(crash.moment)} | {crash.round} | {crash.seconds:.1f} |", flush=True)
                run.check_all()
        except AssertionError as error:
            print(f"it did not go on: {error}", file=sys.stderr)
            return 1
    print(f"\n{len(moments)} moments: every round was published, committed for and reported once; nothing twice.")
    return 0


def _row(moment: "Moment") -> str:
    call = f", call {moment.call}" if moment.call > 1 else ""
    return f"{moment.words} ({moment.when} `{moment.at.removeprefix('sapo_client.')}`{call})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/crashes", description="Kill a node at every step; about ten minutes."
    )
    parser.add_argument("--only", default="", metavar="PATTERN", help="only the moments whose words match")
    return parser


if __name__ == "__main__":
    sys.exit(main())
