"""Where what takes minutes to make is kept between runs."""

import logging
import os
import tempfile
from pathlib import Path

from sapo_devnet.checkout import CACHE, IS_CHECKOUT
from sapo_devnet.errors import DevnetUnable
from sapo_verifier.errors import UsageError
from sapo_verifier.user_cache import VARIABLE, cache_of_home

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """$SAPO_CACHE; else this checkout's own; else $XDG_CACHE_HOME/sapo or ~/.cache/sapo. It exists then.

    Where the user's own cannot be written, a private folder among the temporary files, with a warning.
    Raises UsageError where $SAPO_CACHE cannot be written: it was asked for.
    """
    if named := os.environ.get(VARIABLE):
        folder = Path(named).resolve()
        if reason := _unusable(folder):
            raise UsageError(f"${VARIABLE} is {folder}, which cannot be written ({reason}); name another folder")
        return folder
    try:
        folder = CACHE if IS_CHECKOUT else cache_of_home()
        reason = _unusable(folder)
    except RuntimeError as error:  # a user without a home
        folder, reason = Path("~/.cache/sapo"), str(error)
    if not reason:
        return folder
    made = _temporary()
    log.warning("%s cannot be written (%s); %s is used instead: set $%s to keep it", folder, reason, made, VARIABLE)
    return made


def _unusable(folder: Path) -> str:
    """Why no file can be made in the folder, which is made if need be; "" if one can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _temporary() -> Path:
    """This user's alone: a name in a folder that everybody writes to may be somebody else's."""
    folder = Path(tempfile.gettempdir()) / f"sapo-cache-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise DevnetUnable(
            f"{folder} cannot be made ({error.strerror}); set ${VARIABLE} to a folder of yours"
        ) from None
    if folder.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise DevnetUnable(f"{folder} is not yours alone; remove it, or set ${VARIABLE} to a folder of yours")
    return folder
