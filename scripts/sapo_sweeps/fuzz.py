"""`scripts/fuzz`: each sweep prints a table, and ends with status 1 at the first case that breaks a rule."""

import argparse
import logging
import sys


def main() -> int:
    options = _parser().parse_args()
    logging.disable(logging.CRITICAL)  # thousands of warnings, each about a case that went as it should
    # Imported here: each sweep needs other libraries.
    match options.sweep:
        case "batches":
            from sapo_sweeps.batches import sweep
        case "documents":
            from sapo_sweeps.documents import sweep
        case "gateways":
            from sapo_sweeps.gateways import sweep
        case "rpc":
            from sapo_sweeps.rpc import sweep
        case _:
            from sapo_sweeps.traffic import main as traffic

            return traffic(options)
    try:
        print(sweep(options.count, options.seed).table())
    except AssertionError as error:
        print(f"fuzz {options.sweep}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    sweeps = parser.add_subparsers(dest="sweep", required=True)
    for name, words in {
        "batches": "mutated batches through every check",
        "documents": "hostile JSON through every parser",
        "gateways": "hostile answers of gateways through the block stores",
        "rpc": "hostile answers of the chain's RPC through reader, events and outbox",
    }.items():
        made = sweeps.add_parser(name, help=words)
        made.add_argument("--count", type=int, default=10_000, metavar="N", help="cases (%(default)s)")
        made.add_argument("--seed", type=int, default=0, help="of the first case (%(default)s)")
    made = sweeps.add_parser("traffic", help="what one node downloads in a round, by the number of nodes")
    made.add_argument("--nodes", type=int, nargs="+", default=[10, 50, 200], metavar="N", help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
