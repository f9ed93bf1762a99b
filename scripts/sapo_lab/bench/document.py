"""docs/results/benchmarks.md from what the trainers reported."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sapo_lab.bench.work import Report, Step, Work

NODE, GENRL, TRL = "node, torch", "genrl", "TRL"
STEP_AIM, WITHOUT_AIM, WITH_AIM = 3.0, 0.01, 0.35

HEAD = """# Benchmarks

Written by `{command}`:
{machine}, float32, {threads} for everybody, one trainer after the other in one run. What counts are the ratios: another
machine gives other numbers, and so does the same one when other programs run on it; CPU seconds suffer less from those
than seconds do. `scripts/gpu-check` measures on a graphics card.

`sapo bench generate|train|step --policy FOLDER` measures a node alone, on your machine, with your policy.
"""
WORK = """## A step

{policy}, {prompts} prompts ({prompt_tokens} tokens each on average), groups of {group_size}, {new_tokens} new tokens
per completion, no more and no less: whoever ends early would have less to do. Half of each group is rewarded, so that
everybody trains on every group. One step is generation and training on it (Adam, all weights); measured after a
warm-up{steps}. Tokens are completion tokens. A node's generation includes what the others do not have: forced sampling
and the records pass in float32. Memory is the highest resident size of all of a trainer's processes.
"""
HOW = """## How each was set

Each trainer runs in a process and an environment of its own, through its public interface, offline, with nothing
reported to anybody. What is not listed has the trainer's own default.
"""
VERIFICATION = """## Verification

A batch of that size on the template's own prompts, audited by every check, tasks dealt and answers scored anew. With
the model: all probabilities recomputed in one float32 pass. Shares are of the time in which the engine generated it.
"""


def write(command: str, work: Work, reports: Mapping[str, Report], file: Path | None) -> str:
    """The page; also into `file`."""
    steps = {name: report for name, report in reports.items() if not name.startswith("verification")}
    audits = {name: report for name, report in reports.items() if name.startswith("verification")}
    threads = "1 thread" if work.threads == 1 else f"{work.threads} threads"
    parts = [HEAD.format(command=command, machine=machine(), threads=threads)]
    if steps:
        first = next(iter(steps.values()))
        parts += [
            WORK.format(
                policy=_policy(work),
                prompts=len(work.questions),
                prompt_tokens=round(first.prompt_tokens / work.group_size / len(work.questions)),
                group_size=work.group_size,
                new_tokens=work.new_tokens,
                steps="" if work.steps == 1 else f", of {work.steps} steps the one with the least CPU time",
            ),
            _table(_STEP_COLUMNS, [[name, *_step_row(report, steps)] for name, report in steps.items()]),
        ]
        if node := {name: report for name, report in steps.items() if name.startswith("node")}:
            parts.append(_table(_NODE_COLUMNS, [[name, *_node_row(report)] for name, report in node.items()]))
    if audits:
        rows = [[name.removeprefix("verification, "), *_audit_row(report)] for name, report in audits.items()]
        parts += [VERIFICATION, _table(_AUDIT_COLUMNS, rows)]
    if verdicts := _aims(steps, audits):
        parts += ["## Aims\n", _table(("aim", "measured", "met"), verdicts)]
    parts += [HOW, *_settings(steps)]
    text = "\n".join(parts)
    if file is not None:
        file.write_text(text)
    return text


_STEP_COLUMNS = (
    "trainer", "tokens/s", "generation", "training", "tokens per CPU second", "node's, times this", "peak MiB",
    "this, times node's",
)  # fmt: skip
_NODE_COLUMNS = ("node", "engine s", "records s", "repaired", "widened", "mismatch KL, nats per token")
_AUDIT_COLUMNS = (
    "engine", "engine s", "without the model s", "share", "with the model s", "share", "of a batch's making"
)  # fmt: skip


def _step_row(report: Report, steps: Mapping[str, Report]) -> list[str]:
    best = report.best
    node = steps.get(NODE)
    faster = larger = "-"
    if node is not None and node is not report:
        faster = f"{_per_cpu(node.best) / _per_cpu(best):.2f}"
        larger = f"{best.taken.peak_bytes / node.best.taken.peak_bytes:.2f}"
    return [
        f"{best.tokens / best.taken.seconds:.1f}",
        f"{best.tokens / best.generated.seconds:.1f}",
        f"{best.tokens / best.trained.seconds:.1f}",
        f"{_per_cpu(best):.1f}",
        faster,
        f"{best.taken.peak_bytes / 2**20:.0f}",
        larger,
    ]


def _per_cpu(step: Step) -> float:
    return step.tokens / step.taken.cpu_seconds


def _node_row(report: Report) -> list[str]:
    notes, at = report.notes, report.steps.index(report.best)
    return [
        f"{notes['engine_seconds'][at]:.1f}",
        f"{notes['records_seconds'][at]:.1f}",
        f"{notes['repair_rate']:.3%}",
        f"{notes['widened_rate']:.3%}",
        f"{notes['mismatch_kl']:.0e}",
    ]


def _audit_row(report: Report) -> list[str]:
    notes, audit = report.notes, report.best.trained
    engine, without = notes["engine_seconds"], notes["without_model_seconds"]
    return [
        f"{engine:.1f}",
        f"{without:.3f}",
        f"{without / engine:.2%}",
        f"{audit.seconds:.1f}",
        f"{audit.seconds / engine:.1%}",
        f"{audit.seconds / notes['making_seconds']:.1%}",
    ]


def _aims(steps: Mapping[str, Report], audits: Mapping[str, Report]) -> list[list[str]]:
    """What could be compared in this run."""
    found: list[list[str]] = []

    def aim(words: str, value: float, shown: str, met: Callable[[float], bool]) -> None:
        found.append([words, shown, "yes" if met(value) else "**no**"])

    for own, node in steps.items():
        if not own.startswith("node, torch"):
            continue
        if GENRL in steps:
            times = _per_cpu(node.best) / _per_cpu(steps[GENRL].best)
            words = f"a step at least {STEP_AIM:.0f} times as fast as genrl's, per CPU second ({own})"
            aim(words, times, f"{times:.2f}", lambda value: value >= STEP_AIM)
        for name in (GENRL, TRL):
            if name in steps:
                share = node.best.taken.peak_bytes / steps[name].best.taken.peak_bytes
                aim(f"peak memory below {name}'s ({own})", share, f"{share:.2f} of it", lambda value: value < 1)
    for name, report in audits.items():
        engine = report.notes["engine_seconds"]
        words = f"of generation, {name.removeprefix('verification, ')}"
        without = report.notes["without_model_seconds"] / engine
        aim(f"verification without the model below {WITHOUT_AIM:.0%} {words}", without, f"{without:.2%}",
            lambda value: value < WITHOUT_AIM)  # fmt: skip
        with_model = report.best.trained.seconds / engine
        aim(f"verification with the model below {WITH_AIM:.0%} {words}", with_model, f"{with_model:.1%}",
            lambda value: value < WITH_AIM)  # fmt: skip
    return found


def _settings(steps: Mapping[str, Report]) -> list[str]:
    found = []
    for name, report in steps.items():
        settings = ", ".join(f"{key}={value}" for key, value in report.settings.items())
        packages = ", ".join(f"{key} {value}" for key, value in report.versions.items())
        found.append(f"- **{name}** ({packages}): {settings}")
    return ["\n".join(found) + "\n"]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _policy(work: Work) -> str:
    name = Path(work.policy).name
    return "SmolLM2-135M-Instruct" if name == "smollm2" else name


def machine() -> str:
    """The kind of machine: cores and vector instructions."""
    flags = set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("flags", "Features")):
            flags |= set(line.partition(":")[2].split())
    kinds = {"avx512f": "AVX-512", "avx2": "AVX2", "asimd": "NEON"}
    best = next((words for flag, words in kinds.items() if flag in flags), "no vector instructions known")
    cores = len(os.sched_getaffinity(0))
    return f"{cores} core{'s' if cores > 1 else ''}, {best}"
