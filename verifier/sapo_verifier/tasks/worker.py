"""One subprocess that generates and scores: the library's code and a peer's answers never meet this process.

It runs with PYTHONHASHSEED=0 and a minimal environment and speaks JSON lines over pipes (child.py is the other end).
The limit on a request is kept here: a child that is late is killed, and the next request starts another one.
"""

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import RLock
from typing import Any, Self

from sapo_verifier.catalogue import check_rule
from sapo_verifier.child_process import ChildLostError, ChildProcess
from sapo_verifier.errors import TaskError
from sapo_verifier.tasks.task import GeneratorError

START_SECONDS = 120.0  # importing the library takes 1 s; a busy machine gets all the time it may need
END_SECONDS = 2.0  # for one that has closed its pipe to be gone
MAX_RESTARTS = 2  # per call of scores(): then the machine, not an answer, is the trouble
MAX_REPLY_BYTES = 16 << 20
CHILD = "sapo_verifier.tasks.child"

log = logging.getLogger(__name__)


class TaskWorker:
    """A context manager around the subprocess, which the first request starts. Safe to share between threads."""

    def __init__(self, *, timeout: float = 10.0) -> None:
        """`timeout`: seconds for one question or one score."""
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout} s; it must be positive")
        self.timeout = timeout
        self._child: ChildProcess | None = None
        self._versions: dict[str, str] = {}
        self._lock = RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The subprocess's id, None where none runs."""
        return self._child.pid if self._child else None

    def entry(self, dataset: str, config: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """`create_dataset(dataset, seed=seed, size=1, **config)[0]` as question, answer and metadata (JSON values).

        `config` may hold decimals as the spec writes them. Raises GeneratorError if the library raised, TaskError if
        the dataset may not pay or the subprocess gave no result in time.
        """
        check_rule(dataset, config)
        with self._lock:
            try:
                reply = self._ask("entry", dataset, config, seed)
            except ChildLostError as lost:
                raise TaskError(f"no question from dataset {dataset!r} with seed {seed}: {lost}; try again") from lost
        if "error" in reply:
            raise GeneratorError(f"dataset {dataset!r} cannot generate seed {seed}: {reply['error']}")
        return {key: reply[key] for key in ("question", "answer", "metadata")}

    def scores(self, dataset: str, config: Mapping[str, Any], seed: int, answers: list[str]) -> list[float | None]:
        """1.0 for each answer that is right, else 0.0; None where none came in time: not known, never wrong.

        After more than two lost subprocesses in one call the remaining answers are None too. Raises as entry().
        """
        check_rule(dataset, config)
        scores: list[float | None] = []
        lost_children = 0
        with self._lock:
            if answers:
                self.entry(dataset, config, seed)
            for position, answer in enumerate(answers):
                if lost_children > MAX_RESTARTS:
                    scores.append(None)
                    continue
                try:
                    reply = self._ask("score", dataset, config, seed, answer)
                except ChildLostError as lost:
                    lost_children += 1
                    reply = {"score": None, "error": str(lost)}
                if "error" in reply:
                    log.warning("no score: dataset=%s seed=%d position=%d %s", dataset, seed, position, reply["error"])
                scores.append(reply["score"])
        return scores

    def versions(self) -> dict[str, str]:
        """What the subprocess found of its environment (environment.py). Raises TaskError where it does not start."""
        with self._lock:
            try:
                self._start()
            except ChildLostError as lost:
                raise TaskError(
                    f"the task worker does not start: {lost}; run it by hand: python -m {CHILD} 1"
                ) from lost
            return dict(self._versions)

    def close(self) -> None:
        """End the subprocess; a later request would start another one."""
        with self._lock:
            self._kill()  # it keeps nothing, and takes a while to go by itself

    def _ask(
        self, command: str, dataset: str, config: Mapping[str, Any], seed: int, answer: str | None = None
    ) -> dict[str, Any]:
        """One request, one reply. Raises ChildLostError, and leaves no child behind whose reply could come later."""
        child = self._start()
        request = {"do": command, "dataset": dataset, "config": dict(config), "seed": seed, "answer": answer}
        try:
            return child.ask(request, self.timeout)
        except BaseException:  # Ctrl-C too: a reply that is still to come would answer the next request
            self._kill()
            raise

    def _start(self) -> ChildProcess:
        if self._child is not None and self._child.running:
            return self._child
        self._kill()
        child = self._child = ChildProcess(
            [sys.executable, "-P", "-s", "-W", "ignore", "-m", CHILD, str(self.timeout)],
            name="the task worker",
            env={
                "PYTHONHASHSEED": "0",
                "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
                "LC_ALL": "C.UTF-8",
                "TZ": "UTC",
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
            },
            max_reply_bytes=MAX_REPLY_BYTES,
            end_seconds=END_SECONDS,
        )
        try:
            self._versions = child.receive(START_SECONDS)
        except BaseException:  # whatever ends it, Ctrl-C too: no half-started child stays behind
            self._kill()
            raise
        return child

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
        self._child = None
