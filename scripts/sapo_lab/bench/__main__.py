"""`scripts/bench`: a node beside gensyn-genrl and TRL on the same work, in one run; writes results/benchmarks.md."""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapo_devnet.checkout import ROOT
from sapo_lab.bench.document import write
from sapo_lab.bench.environments import environment, python_of
from sapo_lab.bench.work import Report, Work

SYSTEM = "Put the final answer, and nothing else, inside <answer></answer>."
LEARNING_RATE = 1e-6
FAST = {"checkpointing": False, "micro_batch_tokens": 512}
SECONDS = 3600.0  # for one trainer


@dataclass(frozen=True)
class Entry:
    """One process: which module of this package does the work, in whose environment, with which options."""

    module: str
    options: dict[str, Any]
    trainer: str | None = None  # None: this environment


def entries(work: Work) -> dict[str, Entry]:
    """By the names that the tables have."""
    completions = len(work.questions) * work.group_size
    whole = {"minibatch_size": completions, "enable_gradient_checkpointing": False}
    return {
        "node, torch": Entry("node", {"engine": "torch"}),
        "node, torch, no checkpointing": Entry("node", {"engine": "torch", **FAST}),
        "node, vLLM": Entry("node", {"engine": "vllm"}),
        "genrl": Entry("genrl", {}, "genrl"),
        "genrl, one minibatch": Entry("genrl", whole, "genrl"),
        "TRL": Entry("trl", {}, "trl"),
        "TRL, no checkpointing": Entry("trl", {"gradient_checkpointing": False}, "trl"),
        "verification, torch": Entry("verification", {"engine": "torch"}),
        "verification, vLLM": Entry("verification", {"engine": "vllm"}),
    }


USUAL = (
    *("node, torch", "genrl", "TRL", "node, torch, no checkpointing", "verification, torch"),
    *("node, vLLM", "verification, vLLM"),
)


def main() -> int:
    """Exit status: 0 all was measured, 1 something failed."""
    options = _parser().parse_args()
    if options.round:
        return _round(options)
    work = _work(options)
    every = entries(work)
    chosen = options.only or (list(every) if options.thorough else list(USUAL))
    if unknown := sorted(set(chosen) - set(every)):
        _parser().error(f"{', '.join(unknown)}: choose from {'; '.join(every)}")
    for trainer in sorted({entry.trainer for name in chosen if (entry := every[name]).trainer}):
        python_of(trainer)
    if any(every[name].options.get("engine") == "vllm" for name in chosen):
        _install_vllm()
    command = " ".join(["scripts/bench", *(word if "/" not in word else Path(word).name for word in sys.argv[1:])])
    file = None if options.dry else ROOT / "docs" / "results" / "benchmarks.md"
    reports: dict[str, Report] = {}
    text = ""
    for name in chosen:
        print(f"{name} …", file=sys.stderr, flush=True)
        report = _run(every[name], work, options.verbose)
        if report is not None:
            reports[name] = report
            text = write(command, work, reports, file)  # after each: a long run may be ended early
    print(text)
    return 0 if len(reports) == len(chosen) else 1


def _round(options: argparse.Namespace) -> int:
    from sapo_devnet.smollm2 import smollm2
    from sapo_lab.bench.round import table

    folder = (options.policy or smollm2(ROOT)).resolve()
    table(folder, rank=options.rank, new_tokens=options.max_new_tokens, threads=options.threads)
    return 0


def _install_vllm() -> None:
    from sapo_client.generation.factory import check_engine
    from sapo_client.state.settings import GenerationSettings
    from sapo_verifier.errors import SapoError

    try:
        check_engine(GenerationSettings(engine="vllm"))
    except SapoError:
        subprocess.run([ROOT / "scripts" / "setup", "vllm"], check=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--policy", type=Path, metavar="FOLDER", help="with a chat template (SmolLM2-135M-Instruct)")
    parser.add_argument("--prompts", type=int, default=4, metavar="N", help="groups in a step (%(default)s)")
    parser.add_argument("--group-size", type=int, default=8, metavar="G", help="(%(default)s)")
    parser.add_argument("--max-new-tokens", type=int, default=64, metavar="T", help="of each completion (%(default)s)")
    parser.add_argument("--steps", type=int, default=2, metavar="N", help="measured; the fastest counts (%(default)s)")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, default=cores, metavar="N", help="of everybody (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    parser.add_argument("--only", action="append", metavar="NAME", help="this one alone; may be given several times")
    parser.add_argument("--round", action="store_true", help="instead: a round's spot checks beside generation")
    parser.add_argument("--rank", type=int, default=16, metavar="R", help="of --round's adapters (%(default)s)")
    parser.add_argument("--thorough", action="store_true", help="also other settings of the other trainers")
    parser.add_argument("--dry", action="store_true", help="print the result; the page stays as it is")
    parser.add_argument("--verbose", action="store_true", help="show what the trainers print")
    return parser


def _work(options: argparse.Namespace) -> Work:
    """The same questions for everybody: the paper's tasks."""
    from sapo_client.bench.prompts import bench_spec
    from sapo_client.generation.groups import NOBODY
    from sapo_verifier import protocol
    from sapo_verifier.tasks import TaskWorker, deal

    if options.policy is None:
        from sapo_devnet.smollm2 import smollm2

        options.policy = smollm2(ROOT)
    spec = bench_spec(options.policy, group_size=options.group_size, max_new_tokens=options.max_new_tokens)
    with TaskWorker() as worker:
        beacon = protocol.H("silo", options.seed, 0)
        tasks = [deal(spec, beacon, NOBODY, slot, worker) for slot in range(options.prompts)]
    return Work(
        policy=str(options.policy.resolve()),
        system=SYSTEM,
        questions=[task.question for task in tasks],
        group_size=options.group_size,
        new_tokens=options.max_new_tokens,
        steps=options.steps,
        learning_rate=LEARNING_RATE,
        threads=options.threads,
        seed=options.seed,
    )


def _run(entry: Entry, work: Work, verbose: bool) -> Report | None:
    """None where it failed; what it said last is printed."""
    python = Path(sys.executable) if entry.trainer is None else python_of(entry.trainer)
    steps = 1 if entry.module == "verification" else work.steps
    document = dataclasses.asdict(dataclasses.replace(work, options=entry.options, steps=steps))
    with tempfile.TemporaryDirectory(prefix="sapo-bench-") as folder:
        given, report, log = Path(folder) / "work.json", Path(folder) / "report.json", Path(folder) / "log"
        given.write_text(json.dumps(document))
        files = {"SAPO_BENCH_WORK": str(given), "SAPO_BENCH_REPORT": str(report)}
        with log.open("wb") as output:
            done = subprocess.run(
                [python, "-m", f"sapo_lab.bench.{entry.module}"],
                cwd=folder,  # some write logs beside them
                env={**environment(work.threads), **files},
                stdin=subprocess.DEVNULL,
                stdout=None if verbose else output,
                stderr=None if verbose else output,
                timeout=SECONDS,
                check=False,
            )
        if done.returncode == 0 and report.is_file():
            return Report.read(report)
        last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        print(f"  failed with exit status {done.returncode}:\n{last}", file=sys.stderr, flush=True)
        return None


if __name__ == "__main__":
    sys.exit(main())
