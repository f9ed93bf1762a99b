"""The command line of scripts/simulate. Nothing heavy is imported before a command runs."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from sapo_devnet.checkout import ROOT
from sapo_lab.simulation.choices import Rules, Scores, Setting, Strategy

DOCS = ROOT / "docs" / "results"
MOST_NODES = 100_000
LARGE = 64  # nodes: four windows of 16 draws
MAX_COMPLETIONS = 256  # slots · G, of any spec
CENSORED = ((5, 1), (6, 1), (6, 2), (10, 2), (10, 3), (50, 5), (50, 10), (50, 15), (50, 17),
            (1_000, 100), (1_000, 200), (1_000, 300), (1_000, 333), (1_000, 400))  # fmt: skip

HELP = """what to show:
  rounds       play rounds of one swarm (default): outcomes and pay by strategy
  table        honest and false batches, by size of the network and malicious share
  values       what each strategy is worth against being honest, by share and turnout
  attacks      the same in parts, at one turnout
  censors      what a coalition earns that voids everybody else's batches, or the best
  junk         what made-up hashes with full claims take from others
  coverage     how many voters see a batch, and how often they are too few, exact
  thresholds   fates of honest and false batches by malicious share, exact
  convictions  how likely an honest batch is slashed, exact
  detection    how likely a false batch is found, by how many run the model, exact
  choices      other windows and other least numbers of accepts and rejects, exact
  grinding     how many beacons buy a paid false batch, exact
  outage       what it costs an honest node to be away
  spots        what false completions bring where voters recompute a few, exact
  answers      what accepting unseen brings where answers are shown and looked at
  turnouts     how many have to vote for a bond to deter both
  caps         what a cap on a verdict's pay leaves of it, exact
  plot         write docs/results/economics.png and docs/results/economics.csv

`values` and `attacks` take minutes; with --keep FILE they go on where they were cut short.
"""
SHOWS = ("rounds", "table", "values", "attacks", "censors", "junk", "coverage", "thresholds", "convictions",
         "detection", "choices", "grinding", "outage", "spots", "answers", "turnouts", "caps", "plot")  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if not 2 <= options.nodes <= MOST_NODES:
        parser.error(f"--nodes {options.nodes}: a network has 2 to {MOST_NODES:,} nodes here")
    if not 0 <= options.malicious < 100 or not 0 <= options.without_model <= 100:
        parser.error("--malicious and --without-model are percentages; some node has to be honest")
    if not 0 < options.turnout <= 100:
        parser.error(f"--turnout {options.turnout}: a percentage above 0 of the honest nodes votes")
    if not 0 <= options.right < 100 or min(options.generating, options.a_pass) < 0:
        parser.error("--right is a percentage below 100; --generating and --pass are percentages from 0 on")
    if not 1 <= options.spot <= MAX_COMPLETIONS:
        parser.error(f"--spot {options.spot}: a voter recomputes 1 to {MAX_COMPLETIONS} completions of a batch")
    if options.what in ("answers", "turnouts") and options.nodes < LARGE:
        parser.error(f"--nodes {options.nodes}: {options.what} is about {LARGE} nodes or more, whose windows lie apart")
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: play at least one round")
    rules = Rules(**{f.name: getattr(options, f.name) for f in fields(Rules)})
    if options.what == "plot":
        from sapo_lab.simulation import plot

        plot.write(rules, options.seed, options.out)
        print(f"wrote economics.png and economics.csv in {options.out}")
        return 0
    from sapo_verifier.errors import SapoError

    try:
        print(_shows(options, rules)[options.what]())
    except SapoError as error:
        print(f"scripts/simulate: {error}", file=sys.stderr)
        return error.exit_status
    return 0


def _shows(options: argparse.Namespace, rules: Rules) -> dict[str, Callable[[], str]]:
    from sapo_lab.simulation import answers, grinding, odds, outage, spots, tables, turnouts, values
    from sapo_lab.simulation.cells import Cells
    from sapo_lab.simulation.strategies import swarm
    from sapo_lab.simulation.text import members

    nodes, seed, turnout = options.nodes, options.seed, options.turnout / 100
    setting = Setting(turnout, Scores[options.scores.upper()])

    def rounds() -> str:
        bad = members(nodes, options.malicious / 100)
        also = [(strategy, members(nodes, percent / 100)) for strategy, percent in options.also]
        share = options.without_model / 100
        who = swarm(nodes, bad, Strategy[options.strategy.upper()], also=also, without_model=share)
        return tables.one_swarm(who, rules, options.rounds, setting, seed)

    costs = answers.Costs(options.generating / 100, options.a_pass / 100)

    def looked_at() -> str:
        kinds = answers.table(rules, options.spot, nodes, seed, costs)
        return f"{kinds}\n\n{answers.by_spec(rules, nodes, seed, costs)}"

    return {
        "rounds": rounds,
        "table": lambda: tables.outcomes_by_size(rules, setting, seed),
        "values": lambda: values.values(rules, nodes, Cells(seed, options.keep)),
        "attacks": lambda: values.attacks(rules, nodes, turnout, Cells(seed, options.keep)),
        "censors": lambda: tables.censorship(rules, CENSORED, seed),
        "junk": lambda: tables.junk(rules, nodes, seed),
        "coverage": lambda: odds.coverage(rules),
        "thresholds": lambda: odds.thresholds(rules, nodes, turnout),
        "convictions": lambda: odds.convictions(rules, turnout),
        "choices": lambda: odds.choices(rules, nodes, turnout),
        "detection": lambda: odds.detection(rules, nodes),
        "grinding": lambda: grinding.table(rules),
        "outage": lambda: outage.table(rules),
        "spots": lambda: spots.table(rules, nodes, options.right / 100, hides=options.hides),
        "answers": looked_at,
        "turnouts": lambda: turnouts.table(rules, nodes, seed, costs),
        "caps": lambda: odds.caps(rules),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Play rounds by the contract's rules, at the level of batches and verdicts.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="?", choices=SHOWS, default="rounds", metavar="WHAT")
    parser.add_argument("--nodes", type=int, default=1_000, help="default 1000")
    parser.add_argument("--malicious", type=float, default=20, metavar="PERCENT", help="of the nodes; default 20")
    strategies = [strategy.name.lower() for strategy in Strategy]
    parser.add_argument("--strategy", choices=strategies, default="cartel", help="of the malicious; default cartel")
    parser.add_argument(
        "--also",
        type=_kind_and_share,
        action="append",
        default=[],
        metavar="STRATEGY=PERCENT",
        help="some more of others",
    )
    parser.add_argument(
        "--without-model", type=float, default=0, metavar="PERCENT", help="of the honest that run no model; default 0"
    )
    parser.add_argument(
        "--turnout", type=float, default=100, metavar="PERCENT", help="of the honest that vote; default 100"
    )
    names = [scores.name.lower() for scores in Scores]
    parser.add_argument("--scores", choices=names, default="luck", help="of honest batches, for rounds and table")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="where values and attacks keep what they have computed"
    )
    parser.add_argument("--rounds", type=int, default=20, help="default 20")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument("--out", type=Path, default=DOCS, help="where `plot` writes; default docs/results/")
    of_spots = parser.add_argument_group("spots, answers and turnouts")
    of_spots.add_argument("--right", type=float, default=50, metavar="PERCENT", help="of the author's; default 50")
    of_spots.add_argument("--hides", action="store_true", help="the author serves nothing after a reject")
    of_spots.add_argument("--spot", type=int, default=4, help="completions recomputed of a batch; default 4")
    words = "what generating costs, of a round's pay; default 100, the most at which anybody still would"
    of_spots.add_argument("--generating", type=float, default=100, metavar="PERCENT", help=words)
    words = "what recomputing a completion costs, of generating it; default 50"
    of_spots.add_argument("--pass", dest="a_pass", type=float, default=50, metavar="PERCENT", help=words)
    of_rules = parser.add_argument_group("rules (amounts taken are in bonds, pay is in tokens)")
    for field in fields(Rules):
        made = type(field.default)
        of_rules.add_argument(f"--{field.name.replace('_', '-')}", type=made, default=field.default, metavar="X")
    return parser


def _kind_and_share(text: str) -> tuple[Strategy, float]:
    name, _, percent = text.partition("=")
    if name.upper() not in Strategy.__members__ or not percent:
        raise argparse.ArgumentTypeError(f"{text!r} is no STRATEGY=PERCENT; strategies are those of --strategy")
    return Strategy[name.upper()], float(percent)
