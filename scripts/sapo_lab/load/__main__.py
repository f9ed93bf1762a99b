"""`scripts/load`: N nodes publish for some rounds while two real ones play; what one of those needs must not grow."""

import argparse
import json
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from sapo_devnet.checkout import ROOT
from sapo_verifier.errors import SapoError


def main() -> int:
    """Exit status: 0 flat, 1 not; where it could not be played that of the error."""
    options = _parser().parse_args()
    from sapo_devnet.pocket import QUICK_STEPS, pocket_policy  # loaded late: --help answers at once
    from sapo_lab.load.measure import Load, LoadRun
    from sapo_lab.load.table import grown, round_line, table

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    loads: list[Load] = []
    try:
        policy = pocket_policy(ROOT, steps=QUICK_STEPS)
        with tempfile.TemporaryDirectory(prefix="sapo-load-") as name:
            for nodes in sorted(set(options.nodes)):
                with LoadRun((options.data or Path(name)) / f"load-{nodes}", policy, nodes) as run:
                    for load in run.rounds(options.rounds):
                        print(round_line(load), file=sys.stderr, flush=True)
                        loads.append(load)
    except SapoError as error:
        print(f"load: {error}", file=sys.stderr)
        return error.exit_status
    finally:
        if options.data is not None and loads:
            path = options.data / "load.json"
            path.write_text(json.dumps([asdict(load) for load in loads], indent=1))
    print(table(loads))
    faults = grown(loads)
    for fault in faults:
        print(f"load: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/load", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100], metavar="N", help="that publish (10 100)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="in which they do (%(default)s)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="keep logs, homes and load.json there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
