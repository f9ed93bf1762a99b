"""Freed memory goes back to the system: glibc keeps it, and a node's stages need it in other shapes.

Other C libraries give memory back by themselves, and are left as they are.
"""

import ctypes

LARGE_BLOCK = 1 << 20  # bytes
_M_MMAP_THRESHOLD = -3  # mallopt(3)


def give_back() -> None:
    """Once: tensors of some MiB lie between others that live on; without this a node's memory grows over its first
    rounds."""
    _glibc("malloc_trim", 0)


def return_large_blocks() -> None:
    """Have freed tensors of some MiB go back at once, for the rest of this process.

    By default glibc keeps blocks of up to 32 MiB in its heap, where those that live on fence the others in: a training
    step of SmolLM2 then takes three times the memory that is in use. It costs a third more CPU time, in the kernel.
    """
    _glibc("mallopt", _M_MMAP_THRESHOLD, LARGE_BLOCK)


def _glibc(name: str, *arguments: int) -> None:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return
    function(*arguments)
