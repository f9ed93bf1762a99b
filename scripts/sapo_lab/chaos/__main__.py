"""`scripts/chaos`: one fault a round on a devnet of three nodes; rounds until all is well again, and coins lost."""

import argparse
import logging
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sapo_devnet.checkout import ROOT
from sapo_devnet.pocket import QUICK_STEPS, pocket_policy

if TYPE_CHECKING:
    from sapo_lab.chaos.play import Outcome

PAGE = """# Chaos

Faults of the chain, of RPC providers, of the machine and of the operator, one a round, on a devnet of three nodes. Each
node asks the chain through two providers of its own, which the faults fall upon, all or only the first ones. A round
ends when all nodes are done with it, or after 30 seconds.

    scripts/chaos --page docs/results/chaos.md

*Rounds to recover*: after the one in which the fault ended, until a round in which everybody published and promised for
the next one; 0 is that very round, and more than {most} is too late. *Coins lost*: of all three nodes together, with
gas, beyond what quiet rounds cost; *of them fines* is what bonds were fined (a tenth comes back to who settles): a
fine is what the protocol takes for a promise that was not kept, whatever the reason. *Lines*: warnings of the node that
said most. A last column names what is not as it should be: a node that ended, a round that came too late, or words that
claim what is not so (a second program, another chain, a reorganization, …). Times are of a machine with two cores.

{table}

{summary}
"""
HEAD = "| fault | s | rounds to recover | coins lost | of them fines | lines | |\n|---|---|---|---|---|---|---|"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 everything recovered in time and nothing false was said, 1 not so, 2 there is no such fault."""
    options = _parser().parse_args(argv)
    from sapo_lab.chaos.faults import FAULTS  # loaded late: --help answers at once
    from sapo_lab.chaos.net import chaos_net
    from sapo_lab.chaos.play import MOST_ROUNDS, play, quiet_cost

    logging.basicConfig(level=logging.WARNING)
    faults = [fault for fault in FAULTS if re.search(options.only, fault.words)]
    if not faults:
        print(f"no fault's words match {options.only!r}", file=sys.stderr)
        return 2
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name:
        folder = options.data or Path(name) / "chaos"
        folder.mkdir(parents=True)
        with chaos_net(folder, pocket_policy(ROOT, steps=QUICK_STEPS)) as net:
            quiet = quiet_cost(net)
            print(HEAD, flush=True)
            for fault in faults:
                outcomes.append(play(net, fault, quiet))
                print(outcomes[-1].row(), flush=True)
                if outcomes[-1].rounds is None:
                    break
    bad = [outcome for outcome in outcomes if outcome.faults]
    for outcome in bad:
        print(f"chaos: {outcome.words}: {'; '.join(outcome.faults)}", file=sys.stderr)
    lost = sum(outcome.lost for outcome in outcomes) / 10**18
    summary = (
        f"{len(outcomes)} faults of {len(faults)}, {len(bad)} not as they should be; {lost:.3f} coins lost in all."
    )
    print(f"\n{summary}")
    if options.page:
        table = "\n".join([HEAD, *(outcome.row() for outcome in outcomes)])
        options.page.write_text(PAGE.format(most=MOST_ROUNDS, table=table, summary=summary), encoding="utf-8")
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN", help="only the faults whose words match")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="keep logs and homes there")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table there as a page, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
