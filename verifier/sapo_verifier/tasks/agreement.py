"""Whether this machine deals and scores a network's tasks as the network does, found once and kept for the next start.

A kept sample is a text file: its digest, then a line for each item (dataset, seed, the item's digest), so that `diff`
shows where two machines part. It counts only with the digest that it names, and for the versions that it was made with.
"""

import hashlib
import logging
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from itertools import groupby
from pathlib import Path
from typing import Any

from sapo_verifier import canonical, catalogue
from sapo_verifier.errors import UnableError
from sapo_verifier.files import write_file
from sapo_verifier.objects import hex_digest
from sapo_verifier.spec import Spec, TaskRule
from sapo_verifier.tasks import sample
from sapo_verifier.tasks.environment import environment
from sapo_verifier.tasks.sample import Sample
from sapo_verifier.tasks.worker import TaskWorker
from sapo_verifier.user_cache import user_cache

FOLDER = "tasks"  # in the user's cache
MAX_BYTES = 1 << 20  # of a kept sample; 64 rules' have 30 kB

log = logging.getLogger(__name__)


class OtherTasksError(UnableError):
    """This machine's tasks are not the spec's. `digest`: of what it makes of the spec's rules."""

    def __init__(self, words: str, digest: bytes) -> None:
        super().__init__(words)
        self.digest = digest


def check_versions(spec: Spec, worker: TaskWorker) -> None:
    """Refuse a machine on which tasks would differ. Seconds the first time; none while nothing changes.

    Raises UnableError where reasoning_gym is not the spec's, OtherTasksError where its items are others all the same,
    TaskError where the subprocess does not start or an item is not to be had.
    """
    have, wanted = worker.versions(), spec.versions
    if have["reasoning_gym"] != wanted.reasoning_gym:
        raise UnableError(
            f"this network needs reasoning_gym {wanted.reasoning_gym} and this machine has {have['reasoning_gym']}: "
            f"tasks would differ; install reasoning_gym {wanted.reasoning_gym}"
        )
    path = _place(spec.tasks, have)
    found = _kept(path)
    if found is None or found.digest() != wanted.digest:
        found = _taken(spec.tasks, worker, path)
    if (digest := found.digest()) != wanted.digest:
        raise OtherTasksError(_words(spec, found, have, path), digest)


def tasks_digest(rules: Sequence[TaskRule]) -> bytes:
    """What a spec with these rules says of their items, as this machine makes them. Raises as check_versions."""
    try:
        path = _place(rules, environment())
    except PackageNotFoundError as error:
        raise UnableError("this installation has no reasoning-gym: `pip install sapo-network`") from error
    found = _kept(path)
    if found is None:
        with TaskWorker() as worker:
            found = _taken(rules, worker, _place(rules, worker.versions()))
    return found.digest()


def _taken(rules: Sequence[TaskRule], worker: TaskWorker, path: Path | None) -> Sample:
    found = sample.take(rules, worker)
    if path is not None:
        lines = [f"{name} {seed} {hex_digest(each)}" for name, items in found.rules for seed, each in enumerate(items)]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, "\n".join([hex_digest(found.digest()), *lines, ""]).encode(), synced="nothing")
        except OSError as error:
            log.info("the sample of tasks is not kept for the next start: %s: %s", path.parent, error.strerror)
    return found


def _place(rules: Sequence[TaskRule], have: dict[str, str]) -> Path | None:
    """The file for these rules, with these versions and this code; None where there is no place for one."""
    if (cache := user_cache()) is None:
        return None
    code = hashlib.sha256()
    for source in [Path(catalogue.__file__), *sorted(Path(__file__).parent.glob("*.py"))]:
        code.update(source.read_bytes())
    named: dict[str, Any] = {"code": code.hexdigest(), "versions": have}
    named["rules"] = [[rule.name, rule.config] for rule in rules]
    return cache / FOLDER / f"{hashlib.sha256(canonical.encode(named)).hexdigest()[:32]}.txt"


def _kept(path: Path | None) -> Sample | None:
    """What the file holds; None where there is none, or it is damaged: then it is written anew."""
    try:
        if path is None or path.stat().st_size > MAX_BYTES:
            return None
        first, *lines = path.read_text(encoding="ascii").splitlines()
        rows = [line.split(" ") for line in lines]
        rules = tuple(
            (name, tuple(bytes.fromhex(digest.removeprefix("0x")) for _, _, digest in items))
            for name, items in groupby(rows, key=lambda row: row[0])
        )
    except (OSError, ValueError):
        return None
    found = Sample(rules)
    return found if hex_digest(found.digest()) == first else None


def _words(spec: Spec, found: Sample, have: dict[str, str], path: Path | None) -> str:
    wanted = spec.versions.digest
    where = f"compare {path} with the same file of a machine that agrees, which shows dataset and seed" if path else ""
    for kept in sorted(path.parent.glob("*.txt")) if path else []:  # of another Python here, or brought from elsewhere
        other = _kept(kept)
        if other is None or other.digest() != wanted:
            continue
        if other.shape != found.shape:
            where = "that is the digest of other task rules"
            break
        where = f"the first that differs is {found.first_difference(other)}"
    datasets = ", ".join(rule.name for rule in spec.tasks)
    return (
        f"this machine makes other tasks than the network: {found.items} items of {datasets} have the digest "
        f"{hex_digest(found.digest())}, and the spec says {hex_digest(wanted)}. It has Python {have['python']} and "
        f"numpy {have.get('numpy', '(none)')}: take versions that other nodes of the network have"
        + (f"; {where}" if where else "")
    )
