"""Folders that take minutes to make, and are kept."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def build_once(folder: Path, words: str, build: Callable[[Path], None]) -> Path:
    """The folder; where it is not there yet, `build` makes it under another name first, so that it is whole or absent.

    Its name says what it is made of. Two programs that build it at once do not disturb each other.
    """
    if folder.exists():
        return folder
    print(f"{words} …", flush=True)
    aside = folder.with_suffix(f".{os.getpid()}.building")
    build(aside)
    try:
        aside.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        shutil.rmtree(aside)  # somebody else built the same one meanwhile
    return folder
