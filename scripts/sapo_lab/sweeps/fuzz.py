"""`scripts/fuzz`: each sweep prints a table, and ends with status 1 at the first case that breaks a rule."""

import argparse
import importlib
import logging
import sys

SWEEPS = {
    "batches": "mutated batches through every check",
    "bundles": "mutated batches and bundles through the verifier and through scripts/reverify, which have to agree",
    "documents": "hostile JSON through every parser",
    "answers": "hostile answers of gateways through the block stores, and of the chain's RPC through what reads it",
    "stability": "policies that are rounding errors, and sharp ones, in several processor settings; N batches of each",
}
ANSWERS = ("gateways", "rpc")


def main() -> int:
    options = _parser().parse_args()
    logging.disable(logging.CRITICAL)  # thousands of warnings, each about a case that went as it should
    if options.sweep == "traffic":
        from sapo_lab.sweeps.traffic import main as traffic

        return traffic(options)
    names = [options.sweep]
    if options.sweep == "answers":
        names = [options.only] if options.only else list(ANSWERS)
    for name in names:
        # Imported here: each sweep needs other libraries.
        sweep = importlib.import_module(f"sapo_lab.sweeps.{name}").sweep
        try:
            print(f"{name}\n\n{sweep(options.count, options.seed).table()}\n", flush=True)
        except AssertionError as error:
            print(f"fuzz {name}: {error}", file=sys.stderr)
            return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    sweeps = parser.add_subparsers(dest="sweep", required=True)
    for name, words in SWEEPS.items():
        made = sweeps.add_parser(name, help=words)
        usual = 10 if name == "stability" else 10_000
        made.add_argument("--count", type=int, default=usual, metavar="N", help="cases (%(default)s)")
        made.add_argument("--seed", type=int, default=0, metavar="N", help="number of the first case (%(default)s)")
        if name == "answers":
            made.add_argument("--only", choices=ANSWERS, help="one of the two sides; both have N cases without it")
    made = sweeps.add_parser("traffic", help="what one node downloads in a round, by the number of nodes")
    made.add_argument("--nodes", type=int, nargs="+", default=[10, 50, 200], metavar="N", help="(10 50 200)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
