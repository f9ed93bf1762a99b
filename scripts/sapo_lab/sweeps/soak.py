"""`scripts/soak`: a devnet over many rounds; memory, descriptors, threads and disk of its processes must stay flat."""

import argparse
import json
import logging
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from sapo_devnet.options import Options
from sapo_devnet.pocket import QUICK_STEPS
from sapo_verifier.errors import SapoError


def main() -> int:
    """Exit status: 0 flat, 1 not; where it could not be played that of the error."""
    options = _parser().parse_args()
    from sapo_lab.sweeps.soaking import Soak, table, trends  # loaded late: --help answers at once

    logging.basicConfig(level=logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as name:
        data = options.data or Path(name) / "soak"
        soak = Soak(
            Options(nodes=options.nodes, rounds=options.rounds, i=1, j=1, pocket_steps=options.pocket_steps, data=data)
        )
        try:
            soak.start()
            soak.play()
        except SapoError as error:
            print(f"soak: {error}", file=sys.stderr)
            return error.exit_status
        finally:
            soak.stop()
            if data.exists():
                lines = [json.dumps(asdict(sample)) for sample in soak.samples]
                (data / "samples.jsonl").write_text("\n".join(lines) + "\n")
    found = trends(soak.samples)
    print(table(found))
    faults = [fault for each in found for fault in each.faults(options.limit)]
    for fault in faults:
        print(f"soak: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, metavar="N", help="(%(default)s)")
    parser.add_argument("--nodes", type=int, default=2, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--pocket-steps", type=int, default=QUICK_STEPS, metavar="N", help="of a quick policy (%(default)s)"
    )
    parser.add_argument("--limit", type=float, default=50.0, metavar="KIB", help="of memory a round (%(default)s)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="keep logs, homes and samples there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
