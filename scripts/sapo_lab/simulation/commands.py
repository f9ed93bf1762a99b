"""The command line of scripts/simulate. Nothing heavy is imported before a command runs."""

import argparse
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from sapo_devnet.checkout import ROOT
from sapo_lab.simulation.choices import Rules, Strategy

DOCS = ROOT / "docs" / "results"
MOST_NODES = 100_000
CENSORED = ((3, 1), (4, 1), (4, 2), (5, 1), (5, 2), (10, 3), (10, 4), (50, 5), (50, 10), (50, 15), (50, 17),
            (1_000, 100), (1_000, 200), (1_000, 300), (1_000, 340), (1_000, 400))  # fmt: skip

HELP = """what to show:
  rounds       play rounds of one swarm (default): outcomes and pay by strategy
  table        honest and false batches, by size of the network and malicious share
  attacks      what each strategy wins and loses per round
  censors      what a coalition earns that voids everybody else's batches
  coverage     how many voters see a batch
  thresholds   fates of honest and false batches by malicious share, exact
  convictions  how likely an honest batch is slashed, exact
  detection    how likely a false batch is found, by how many run the model, exact
  choices      the same with other windows and other least numbers of rejects, exact
  plot         write docs/results/economics.png and docs/results/economics.csv
"""


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if not 2 <= options.nodes <= MOST_NODES:
        parser.error(f"--nodes {options.nodes}: a network has 2 to {MOST_NODES:,} nodes here")
    if not 0 <= options.malicious < 100 or not 0 <= options.without_model <= 100:
        parser.error("--malicious and --without-model are percentages; some node has to be honest")
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: play at least one round")
    rules = Rules(**{f.name: getattr(options, f.name) for f in fields(Rules)})
    if options.what == "plot":
        from sapo_lab.simulation import plot

        plot.write(rules, options.seed, options.out)
        print(f"wrote economics.png and economics.csv in {options.out}")
        return 0
    print(_shows(options, rules)[options.what]())
    return 0


def _shows(options: argparse.Namespace, rules: Rules) -> dict[str, Callable[[], str]]:
    from sapo_lab.simulation import odds, tables
    from sapo_lab.simulation.strategies import swarm

    nodes, seed = options.nodes, options.seed

    def rounds() -> str:
        bad = tables.members(nodes, options.malicious / 100)
        also = [(strategy, tables.members(nodes, percent / 100)) for strategy, percent in options.also]
        share = options.without_model / 100
        who = swarm(nodes, bad, Strategy[options.strategy.upper()], also=also, without_model=share)
        return tables.one_swarm(who, rules, options.rounds, seed)

    return {
        "rounds": rounds,
        "table": lambda: tables.outcomes_by_size(rules, seed),
        "attacks": lambda: tables.attacks(rules, nodes, (0.01, 0.2, 0.34), seed),
        "censors": lambda: tables.censorship(rules, CENSORED, seed),
        "coverage": lambda: tables.coverage(rules, (5, 10, 50, 1_000, 10_000), seed),
        "thresholds": lambda: odds.thresholds(rules, nodes),
        "convictions": lambda: odds.convictions(rules),
        "choices": lambda: odds.choices(rules, nodes),
        "detection": lambda: odds.detection(rules, nodes),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Play rounds by the contract's rules, at the level of batches and verdicts.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shows = ["rounds", "table", "attacks", "censors", "coverage", "thresholds", "convictions", "detection",
             "choices", "plot"]  # fmt: skip
    parser.add_argument("what", nargs="?", choices=shows, default="rounds", metavar="WHAT")
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
    parser.add_argument("--rounds", type=int, default=20, help="default 20")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument("--out", type=Path, default=DOCS, help="where `plot` writes; default docs/results/")
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
