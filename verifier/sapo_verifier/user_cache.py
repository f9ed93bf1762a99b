"""Where a user's programs keep what they can make anew: nothing in it is missed, and nothing of it is trusted."""

import os
from pathlib import Path

VARIABLE = "SAPO_CACHE"


def user_cache() -> Path | None:
    """$SAPO_CACHE; else $XDG_CACHE_HOME/sapo or ~/.cache/sapo; it need not be there. None for a user without a home."""
    if named := os.environ.get(VARIABLE):
        return Path(named).resolve()
    try:
        return cache_of_home()
    except RuntimeError:  # how Path.home says so
        return None


def cache_of_home() -> Path:
    """As freedesktop.org's base directories: a relative path counts as none. Raises RuntimeError without a home."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "sapo"
