"""The command line of scripts/experiment. Nothing heavy is imported before a command runs."""

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_client.training.rules import EXTERNAL_RULES
from sapo_devnet.checkout import ROOT
from sapo_lab.experiment.setting import HELD_OUT

if TYPE_CHECKING:
    from sapo_lab.experiment.setting import Setting

DOCS = ROOT / "docs" / "results" / "experiments"
PAGE = ROOT / "docs" / "results" / "experiments.md"
STUDIES = (
    *("staleness", "heterogeneous", "specialists", "loss-of-peers", "poison"),
    *("external-groups", "draws", "sparsity", "learning-rate"),
)


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    from sapo_verifier.errors import SapoError

    try:
        return int(options.command(options))
    except SapoError as error:
        print(f"experiment: {error}", file=sys.stderr)
        return error.exit_status


def _run(options: argparse.Namespace) -> int:
    from sapo_lab.experiment import results, runs
    from sapo_lab.experiment.runner import run
    from sapo_lab.experiment.setting import Setting

    chosen = {f.name: getattr(options, f.name) for f in fields(Setting) if getattr(options, f.name) is not None}
    setting = Setting(**chosen)
    runs.check(setting)
    with runs.laid(setting, ROOT, **_place(options)) as ground:
        result = run(setting, ground, log=_say)
    print(results.markdown([results.row_of("this run", result)]))
    if options.out is not None:
        results.write_csv(result["rounds"], options.out)
        print(f"wrote {options.out}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    """Going alone against the default, for half of the time each, at equal numbers of groups to train on."""
    from dataclasses import replace

    from sapo_lab.experiment import results, runs
    from sapo_lab.experiment.runner import run
    from sapo_lab.experiment.setting import Setting

    found = []
    for own, external in ((2 * options.i, 0), (options.i, options.i)):
        setting = Setting(own_groups=own, external_groups=external, nodes=options.nodes, rounds=10**6)
        setting = replace(setting, learning_rate=options.learning_rate or setting.learning_rate)
        runs.check(setting)
        with runs.laid(setting, ROOT, **_place(options)) as ground:
            result = run(setting, ground, log=_say, seconds=30 * options.minutes)
        name = f"{own}/{external}"
        print(f"{name}: {len(result['rounds'])} rounds", flush=True)
        found.append((name, result))
    common = min(len(result["rounds"]) for _, result in found)
    print(results.markdown([results.row_of(name, result) for name, result in found]))
    for name, result in found:
        reward = sum(each["reward"] for each in result["rounds"][:common])
        print(f"{name}: cumulative reward {reward:.2f} in the first {common} rounds")
    return 0


def _place(options: argparse.Namespace) -> dict[str, Any]:
    names = ("policy", "engine", "device", "lora_rank", "dtype", "held_out")
    return {name: getattr(options, name) for name in names}


def _say(words: str) -> None:
    print(words, flush=True)


def _table(options: argparse.Namespace) -> int:
    from sapo_lab.experiment.configurations import QUICK, TABLE

    names = QUICK if options.quick else tuple(TABLE)
    return _all("quick" if options.quick else "table", {name: TABLE[name] for name in names}, options)


def _study(options: argparse.Namespace) -> int:
    from sapo_lab.experiment.studies import study

    return _all(options.name, study(options.name), options)


def _all(name: str, settings: "Mapping[str, Setting]", options: argparse.Namespace) -> int:
    """Run what has no result yet, then write and print what there is."""
    from dataclasses import replace

    from sapo_lab.experiment import page, plot, results, runs

    wanted = {
        (configuration, seed): replace(setting, seed=seed, rounds=options.rounds or setting.rounds)
        for seed in options.seeds
        for configuration, setting in settings.items()
    }
    if not options.assemble:
        runs.run_all(list(wanted.values()), ROOT, jobs=options.jobs)
    rows = runs.rows(ROOT)
    found: dict[str, list[Any]] = {}
    for (configuration, _), setting in wanted.items():
        if (result := rows.get(setting)) is not None:
            found.setdefault(configuration, []).append(result)
    if not found:
        print("there are no results yet; leave --assemble out", file=sys.stderr)
        return 1
    table = [results.row_of(configuration, result) for configuration, of in found.items() for result in of]
    results.write_csv(table, options.out / f"{name}.csv")
    results.write_csv(results.curves(found), options.out / f"{name}-curves.csv")
    plot.draw(name, options.out)
    print(text := page.table_of(name, options.out))
    print(f"wrote {name}.csv, {name}-curves.csv and {name}*.png in {options.out}")
    if options.out == DOCS and page.fill(PAGE, name, text):
        print(f"wrote the table into {PAGE.name}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/experiment",
        description="Play a swarm in one process with the product's own code, and measure what sharing does.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    run = commands.add_parser("run", help="one configuration, one seed")
    run.set_defaults(command=_run)
    _setting_options(run)
    compare = commands.add_parser("compare", help="alone against shared, as many rounds as fit into some minutes")
    compare.set_defaults(command=_compare)
    words = "of rounds, half for each; the held-out tasks come on top (%(default)s)"
    compare.add_argument("--minutes", type=float, default=10, metavar="N", help=words)
    compare.add_argument("--i", type=int, default=4, help="own and external groups; alone twice as many (%(default)s)")
    compare.add_argument("--nodes", type=int, default=4, metavar="N", help="(%(default)s)")
    compare.add_argument("--learning-rate", type=float, metavar="X", help="of Adam")
    for real in (run, compare):
        words = "a Hugging Face folder; default: a pocket policy that is almost never right at first"
        real.add_argument("--policy", type=Path, metavar="FOLDER", help=words)
        real.add_argument("--engine", choices=("torch", "vllm"), default="torch", help="what generates (%(default)s)")
        real.add_argument("--device", default="cpu", help="of the policies, as torch names it (%(default)s)")
        real.add_argument("--lora-rank", type=int, default=0, metavar="N", help="0: train all weights (%(default)s)")
        dtypes = ("float32", "bfloat16")
        tasks = HELD_OUT if real is run else 8  # a real model takes its time for them
        words = "held-out tasks of each dataset (%(default)s)"
        real.add_argument("--held-out", type=_positive, default=tasks, metavar="N", help=words)
        real.add_argument("--dtype", choices=dtypes, default="float32", help="of the trainer's passes (%(default)s)")
    run.add_argument("--out", type=Path, metavar="FILE", help="write a row per round as CSV")
    table = commands.add_parser("table", help="the paper's configurations, ours, and the controls")
    table.add_argument("--quick", action="store_true", help="five configurations")
    table.set_defaults(command=_table)
    study = commands.add_parser("study", help="one question, with a plot")
    study.add_argument("name", choices=STUDIES, metavar="|".join(STUDIES))
    study.set_defaults(command=_study)
    for several in (table, study):
        several.add_argument("--seeds", type=_numbers, default=[0, 1, 2], metavar="N,N,…", help="default 0,1,2")
        several.add_argument("--rounds", type=int, metavar="N", help="other than the configurations' own")
        jobs = len(os.sched_getaffinity(0))
        several.add_argument("--jobs", type=int, default=jobs, metavar="N", help="runs at a time (%(default)s)")
        several.add_argument("--assemble", action="store_true", help="run nothing; write what there is")
        several.add_argument("--out", type=Path, default=DOCS, metavar="FOLDER", help="(%(default)s)")
    return parser


def _setting_options(run: argparse.ArgumentParser) -> None:
    """The fields of Setting that a person changes; what is not given keeps its default."""

    def add(flag: str, name: str, words: str, **how: Any) -> None:
        run.add_argument(flag, dest=name, help=words, default=None, **how)

    add("--i", "own_groups", "own groups that a node trains on", type=int, metavar="I")
    add("--j", "external_groups", "external groups that it trains on", type=int, metavar="J")
    add("--external", "external", "what external tokens count", choices=EXTERNAL_RULES)
    add("--generate", "generate", "groups that a node generates per round (default: I)", type=int, metavar="N")
    add("--nodes", "nodes", "default 8", type=int, metavar="N")
    add("--rounds", "rounds", "default 40", type=int, metavar="N")
    add("--seed", "seed", "default 0", type=int, metavar="N")
    add("--learning-rate", "learning_rate", "of Adam", type=float, metavar="X")
    add("--right-format", "right_format", "of the policy at first (default 0.01)", type=float, metavar="SHARE")
    add("--ages", "ages", "of external groups on offer, in rounds (default 1,2)", type=_tuple, metavar="N,N,…")
    add("--checks", "checks", "before anybody learns from a batch", choices=("off", "documents", "model"))
    add("--poison", "poison", "what poisoners publish", choices=("none", "false-rewards", "solver"))
    add("--poisoners", "poisoners", "so many of the nodes", type=int, metavar="N")
    add("--specialists", "specialists", "datasets that each node knows (default: all)", type=int, metavar="N")
    add("--leave", "leave", "the round before which half of the nodes vanish", type=int, metavar="N")
    add("--spot", "spot", "completions of a batch whose p_theirs a node knows (default: all)", type=int, metavar="N")
    run.set_defaults(own_as_external=None, draw=None, other=None, once=None)  # for studies only


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _tuple(text: str) -> tuple[int, ...]:
    return tuple(_numbers(text))
