"""A home that is made whole or not at all: everything is gathered aside in it, and takes its place at the end."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sapo_client.state import home as layout
from sapo_client.state.settings import FILE_NAME
from sapo_verifier.errors import UsageError
from sapo_verifier.files import sync_folder

ASIDE = ".arriving"


@contextmanager
def arriving(home: Path) -> Iterator[Path]:
    """An empty folder in a home that has no node yet, and is held meanwhile; `settle` gives what is in it its place.

    However this ends, the folder is gone, and with an error also a home that was made for it. Raises UsageError for a
    home that has a node.
    """
    for name in (FILE_NAME, layout.KEYSTORE):
        if (home / name).exists():
            raise UsageError(f"{home} has a node already ({name}); choose another --home")
    is_new = not home.exists()
    try:
        with layout.only_one(home):
            aside = home / ASIDE
            shutil.rmtree(aside, ignore_errors=True)  # of one that was killed
            aside.mkdir()
            try:
                yield aside
            finally:
                shutil.rmtree(aside, ignore_errors=True)
    except BaseException:
        if is_new:
            shutil.rmtree(home, ignore_errors=True)
        raise


def refuse_taken(aside: Path, home: Path) -> None:
    """Raises UsageError where something of the same name is in the home."""
    for path in aside.iterdir():
        if (home / path.name).exists():
            raise UsageError(f"{home / path.name} exists already, and nothing is overwritten; choose another --home")


def settle(aside: Path, home: Path) -> None:
    """The settings last: without them it is no node's home. Raises as refuse_taken does."""
    refuse_taken(aside, home)
    for path in sorted(aside.iterdir(), key=lambda path: path.name == FILE_NAME):
        sync_folder(path if path.is_dir() else aside)
        path.rename(home / path.name)
        sync_folder(home)
