"""What the vLLM process writes to its standard error, in a file that stays small while the process runs."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 10 << 20  # after which it begins anew; the one before is kept beside it


def begun(path: Path) -> BinaryIO:
    """An empty log for a new process; the last process's is kept beside it. Raises OSError."""
    with suppress(FileNotFoundError):
        path.replace(older(path))
    # Each write goes to the end, wherever that is: `bound` moves it.
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600), "wb", buffering=0)


def bound(path: Path) -> None:
    """Begin a long log anew, while its process writes to it: what is written between copying and cutting is lost. On a
    full disk only the last part of it stays uncopied: the log is cut in any case. Raises OSError where it cannot be."""
    with suppress(FileNotFoundError):
        if path.stat().st_size > MOST_BYTES:
            with suppress(OSError):
                shutil.copyfile(path, older(path))
            os.truncate(path, 0)


def older(path: Path) -> Path:
    """Beside it: what was written before."""
    return path.with_name(path.name + ".1")
