"""What a long table has computed so far, kept in a file: a run that is cut short goes on where it was."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sapo_verifier.errors import SapoError

Numbers = dict[str, float]


class CellsError(SapoError):
    """A file that is to keep a table's cells holds something else."""


class Cells:
    """Cells by name, one JSON object a line; without a file nothing is kept.

    Each cell has random numbers of its own, which follow from seed and name: so the order and the other cells of a run
    do not matter. Raises CellsError if the file holds something else.
    """

    def __init__(self, seed: int, file: Path | None = None) -> None:
        self._seed = seed
        self._file = file
        self._known: dict[str, Numbers] = {}
        if file is not None and file.exists():
            whole, end, rest = file.read_text(encoding="utf-8").rpartition("\n")
            self._known = dict(_read(file, line) for line in whole.splitlines())
            if rest:  # a line that was cut off: its cell is computed again
                file.write_text(whole + end, encoding="utf-8")

    def get(self, name: str, compute: Callable[[np.random.Generator], Numbers]) -> Numbers:
        """The cell's numbers, computed if they are not known. name: all that they depend on, but the seed."""
        key = f"seed {self._seed}, {name}"
        if key not in self._known:
            self._known[key] = compute(np.random.default_rng([self._seed, zlib.crc32(name.encode())]))
            if self._file is not None:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"cell": key, "numbers": self._known[key]}) + "\n")
        return self._known[key]


def _read(file: Path, line: str) -> tuple[str, Numbers]:
    try:
        made = json.loads(line)
        return str(made["cell"]), {str(name): float(number) for name, number in made["numbers"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CellsError(f"{file} holds a line that is no cell: {line[:80]!r}; name another file") from error
