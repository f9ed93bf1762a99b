"""Runs and where their results are kept: .cache/experiment, one file each."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_lab.experiment.others import other_tokenizer, smaller
from sapo_lab.experiment.results import Rows
from sapo_lab.experiment.setting import HELD_OUT, Setting
from sapo_lab.experiment.sparse import sparse_policy
from sapo_verifier.errors import UsageError

if TYPE_CHECKING:
    from sapo_lab.experiment.runner import Ground

MOST_COMPLETIONS = 256  # of a batch: bits of a claim word


def rows(root: Path) -> Rows:
    return Rows(root / ".cache" / "experiment" / "results")


def tasks_file(root: Path) -> Path:
    return root / ".cache" / "experiment" / f"tasks-{version('reasoning-gym')}.sqlite"


def check(setting: Setting) -> None:
    """Raises UsageError for a setting that cannot be played."""
    if setting.slots * 8 > MOST_COMPLETIONS:
        raise UsageError(f"{setting.slots} groups of 8 do not fit a claim; generate at most {MOST_COMPLETIONS // 8}")
    if min(setting.nodes - setting.poisoners, setting.rounds, setting.own_groups) < 1:
        raise UsageError("an experiment needs a node that learns, a round, and own groups (--i) of at least 1")
    if setting.external_groups < 0 or min(setting.ages) < 0:
        raise UsageError("--j and --ages are not negative")


@contextmanager
def laid(
    setting: Setting, root: Path, policy: Path | None = None, held_out: int = HELD_OUT, **place: Any
) -> "Iterator[Ground]":
    """The ground of a run in this process. policy: a Hugging Face folder; None: the sparse pocket policy. held_out:
    tasks of each dataset. place: as runner.Place takes it. Raises UsageError where the policy or
    the engine cannot be had."""
    import torch

    from sapo_lab.experiment.runner import Ground, Place, pocket_rules, real_rules
    from sapo_lab.experiment.tasks import RememberingWorker

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    folder = policy or sparse_policy(root, setting.right_format)
    folders = [folder]
    if setting.other == "tokenizer":
        folders.append(other_tokenizer(root, folder))
    if setting.other == "smaller":
        folders.append(smaller(root, folder, setting.right_format))
    spec = pocket_rules(folders) if policy is None else real_rules(folder)
    with RememberingWorker(tasks_file(root)) as worker:
        yield Ground.lay(spec, folders, worker, Place(**place), held_out=held_out)


def run_all(settings: Sequence[Setting], root: Path, *, jobs: int) -> None:
    """Play every setting that has no result yet, some at a time, each process on one core."""
    kept = rows(root)
    for setting in settings:
        check(setting)
    missing = [setting for setting in dict.fromkeys(settings) if kept.get(setting) is None]
    print(f"{len(settings) - len(missing)} of {len(settings)} runs are done already", flush=True)
    if not missing:
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_play, setting, root): setting for setting in missing}
        for done, future in enumerate(as_completed(running), 1):
            result = future.result()
            kept.put(result)
            reward = sum(each["reward"] for each in result["rounds"])
            seconds = sum(each["seconds"] for each in result["rounds"])
            name = f"{running[future].short()} seed {running[future].seed}"
            print(f"[{done}/{len(missing)}] {name}: cumulative reward {reward:.1f}, {seconds:.0f} s", flush=True)


def _play(setting: Setting, root: Path) -> dict[str, Any]:
    from sapo_lab.experiment.runner import run

    with laid(setting, root) as ground:
        return run(setting, ground)
