"""What the formula nodes of one process share: a daemon for their blocks, a task worker, a tokenizer."""

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from sapo_devnet.formula.policy import formula_base, write_tokenizer
from sapo_devnet.nodes import SAPO, daemon_addresses
from sapo_devnet.processes import Process, stop_all
from sapo_verifier import canonical
from sapo_verifier.bases import BaseMissingError, Bases, Tokenizer
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.spec import BaseRule
from sapo_verifier.tasks import TaskWorker, check_versions

REMEMBERED = 4096  # items and scores each: all of a window ask for the same ones


class RememberingWorker(TaskWorker):
    """Asks its subprocess for an item or a score once, whoever wants it."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[tuple[str, bytes, int], dict[str, Any]] = {}
        self._scored: dict[tuple[str, bytes, int, str], float | None] = {}
        self._guard = threading.RLock()

    def entry(self, dataset: str, config: Mapping[str, Any], seed: int) -> dict[str, Any]:
        with self._guard:
            name = (dataset, canonical.encode(dict(config)), seed)
            if name not in self._entries:
                _make_room(self._entries)
                self._entries[name] = super().entry(dataset, config, seed)
            return self._entries[name]

    def scores(self, dataset: str, config: Mapping[str, Any], seed: int, answers: list[str]) -> list[float | None]:
        with self._guard:
            named = {answer: (dataset, canonical.encode(dict(config)), seed, answer) for answer in answers}
            new = [answer for answer, name in named.items() if self._scored.get(name) is None]
            if new:
                _make_room(self._scored)
                found = super().scores(dataset, config, seed, new)
                self._scored |= {named[answer]: score for answer, score in zip(new, found, strict=True)}
            return [self._scored[named[answer]] for answer in answers]


def _make_room(kept: dict[Any, Any]) -> None:
    """The oldest half goes."""
    if len(kept) > REMEMBERED:
        for name in list(kept)[: REMEMBERED // 2]:
            del kept[name]


class FormulaBases(Bases):
    """Only the base whose tokens the formula writes, which needs no files: real nodes' texts on it can be read, too."""

    def __init__(self, base: BaseRule, folder: Path) -> None:
        super().__init__([folder])
        write_tokenizer(folder)
        self._base = base
        self._tokens = Tokenizer(folder)

    def tokenizer(self, rule: BaseRule) -> Tokenizer:
        if rule.digest != self._base.digest:
            raise BaseMissingError(f"formula nodes have no files of the base {rule.id}")
        return self._tokens


class Shared:
    """A context manager; its nodes are to be stopped before it ends."""

    def __init__(self, folder: Path, deployment: Deployment) -> None:
        """folder: for the daemon's repository and log. Raises UsageError where the formula fits no base of the spec."""
        self.deployment = deployment
        self.base = formula_base(deployment.spec)
        self._folder = folder
        self._stack = ExitStack()
        self.worker = RememberingWorker()

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            command = [*SAPO, "ipfs", "--repo", str(self._folder / "ipfs"), "--api", "127.0.0.1:0"]
            command += ["--gateway", "127.0.0.1:0", "--allow-private"]
            self.daemon = Process("the formula nodes' IPFS daemon", command, self._folder / "ipfs.log")
            stack.callback(stop_all, [self.daemon])
            self.bases = FormulaBases(self.base, self._folder)
            stack.enter_context(self.worker)
            check_versions(self.deployment.spec, self.worker)
            self.api, self.gateway = daemon_addresses(self.daemon)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
