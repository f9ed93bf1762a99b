"""Freed memory goes back to the system between a round's stages, as generation and training need it in other shapes."""

import ctypes
from collections.abc import Callable


def _trimmer() -> Callable[[int], int] | None:
    """glibc's malloc_trim(3); other C libraries give memory back by themselves."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None


_TRIM = _trimmer()


def give_back() -> None:
    """Tensors of some MiB lie between others that live on; without this a node's memory grows over its first rounds."""
    if _TRIM is not None:
        _TRIM(0)
