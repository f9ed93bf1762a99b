"""A task worker that remembers: eight auditors and a dozen configurations ask for the same tasks and scores.

Tasks follow from the beacon and the node's name alone, so every configuration of one seed is dealt the same ones; what
the library says of them is the same in every process, and is kept in one file.
"""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sapo_verifier.tasks import GeneratorError, TaskWorker, check_rule

BUSY_SECONDS = 60.0


class RememberingWorker(TaskWorker):
    """Asks the subprocess once for each entry and each answer. file: where that stays between runs; None: nowhere."""

    def __init__(self, file: Path | None = None, *, timeout: float = 10.0) -> None:
        super().__init__(timeout=timeout)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        # One statement is one transaction; two processes may write.
        self._kept = sqlite3.connect(file or ":memory:", timeout=BUSY_SECONDS, isolation_level=None)
        self._kept.execute("PRAGMA journal_mode = WAL")
        self._kept.execute("PRAGMA synchronous = OFF")
        self._kept.execute("CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        self._recent: dict[str, str] = {}

    def close(self) -> None:
        super().close()
        self._kept.close()

    def entry(self, dataset: str, config: Mapping[str, Any], seed: int) -> dict[str, Any]:
        check_rule(dataset, config)
        key = _key(dataset, config, seed)
        found = self._get(key)
        if found is None:
            try:
                found = json.dumps(super().entry(dataset, config, seed))
            except GeneratorError as error:
                found = json.dumps({"error": str(error)})
            self._put(key, found)
        entry: dict[str, Any] = json.loads(found)
        if "error" in entry:
            raise GeneratorError(entry["error"])
        return entry

    def scores(self, dataset: str, config: Mapping[str, Any], seed: int, answers: list[str]) -> list[float | None]:
        check_rule(dataset, config)
        keys = [_key(dataset, config, seed, answer) for answer in answers]
        known = [self._get(key) for key in keys]
        missing = [answer for answer, found in zip(answers, known, strict=True) if found is None]
        new = dict(zip(missing, super().scores(dataset, config, seed, missing), strict=True))
        for key, answer in zip(keys, answers, strict=True):
            if new.get(answer) is not None:  # what gave no result is asked again
                self._put(key, json.dumps(new[answer]))
        return [
            new[answer] if found is None else float(json.loads(found))
            for answer, found in zip(answers, known, strict=True)
        ]

    def _get(self, key: str) -> str | None:
        if key not in self._recent:
            row = self._kept.execute("SELECT value FROM kept WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            self._recent[key] = row[0]
        return self._recent[key]

    def _put(self, key: str, value: str) -> None:
        self._kept.execute("INSERT OR IGNORE INTO kept VALUES (?, ?)", (key, value))
        self._recent[key] = value


def _key(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True)
