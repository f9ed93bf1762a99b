"""What questions and scores could depend on beside our own code: interpreter, machine, the library and its ground."""

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

LIBRARY = "reasoning-gym"


def environment() -> dict[str, str]:
    """Versions by name: python, machine, reasoning_gym, numpy, and every package that reasoning-gym stands on.

    Raises PackageNotFoundError where there is no reasoning-gym. (The module's own __version__ lags behind.)
    """
    found = {"reasoning_gym": version(LIBRARY), "python": platform.python_version(), "machine": platform.machine()}
    for line in ["numpy", *(requires(LIBRARY) or [])]:
        if (name := re.match(r"[\w.-]+", line)) and "extra ==" not in line:
            try:
                found[name[0]] = version(name[0])
            except PackageNotFoundError:  # one that this interpreter does without
                continue
    return found
