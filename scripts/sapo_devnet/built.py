"""Folders that take minutes to make, and are kept."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sapo_devnet.errors import DevnetUnable
from sapo_verifier.files import lock_file

WAIT_SECONDS = 3600.0  # for another program that builds the same
POLL_SECONDS = 0.1


def build_once(folder: Path, words: str, build: Callable[[Path], None]) -> Path:
    """The folder; where it is not there yet, `build` makes it under another name first, so that it is whole or absent.

    Its name says what it is made of. Of two programs that want it at once one builds it and the other waits.
    """
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = _locked(folder.with_name(f"{folder.name}.lock"), words)
    try:
        if folder.exists():  # somebody else was faster
            return folder
        print(f"{words} …", file=sys.stderr, flush=True)
        aside = folder.with_name(f"{folder.name}.building")
        shutil.rmtree(aside, ignore_errors=True)  # of one that was killed
        try:
            build(aside)
            aside.rename(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    finally:
        os.close(lock)
    return folder


def _locked(path: Path, words: str) -> int:
    """The lock, once it is free; it ends with its holder, however that ends."""
    deadline = time.monotonic() + WAIT_SECONDS
    told = False
    while (lock := lock_file(path)) is None:
        if time.monotonic() > deadline:
            raise DevnetUnable(f"another program has held {path} for an hour ({words}); end it, and try again")
        if not told:
            print(f"{words}: another program does so; waiting for it …", file=sys.stderr, flush=True)
            told = True
        time.sleep(POLL_SECONDS)
    return lock
