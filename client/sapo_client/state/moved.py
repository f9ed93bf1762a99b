"""The mark of a home whose node went to another machine: from then on nothing acts from here, until that is undone."""

import json
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sapo_client.state.archive import About
from sapo_verifier.errors import UnableError
from sapo_verifier.files import sync_folder, write_file

MOVED = "moved.json"


class Moved(BaseModel):
    """archive: the file with the node. about: how far its key was."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    archive: Annotated[str, Field(min_length=1)]
    about: About


def mark(home: Path, moved: Moved) -> None:
    """On disk when this returns."""
    write_file(home / MOVED, moved.model_dump_json(indent=1).encode(), mode=0o600)


def unmark(home: Path) -> None:
    (home / MOVED).unlink(missing_ok=True)
    sync_folder(home)


def read_mark(home: Path) -> Moved | None:
    """None: it is a home as any other. Raises UnableError for a mark that cannot be read: it may still be one."""
    try:
        return Moved.model_validate(json.loads((home / MOVED).read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, ValidationError):
        raise UnableError(
            f"{home / MOVED} says that this node was moved, and cannot be read. If you are certain that it runs "
            "nowhere else, remove that file"
        ) from None


def refuse_moved(home: Path) -> None:
    """Raises UnableError, with how to undo it, where the node went elsewhere."""
    if (moved := read_mark(home)) is not None:
        raise UnableError(
            f"the node in {home} was moved in round {moved.about.round}, into {moved.archive}: it goes on where that "
            f"is imported (`sapo move import`). If it never ran there, it can go on here after `sapo move undo --home "
            f"{home}`"
        )
