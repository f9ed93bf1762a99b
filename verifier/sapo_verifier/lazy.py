"""Public names of a package that are looked up when they are used (PEP 562), so that importing it loads nothing."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from sapo_verifier.errors import SapoError


def lookup(package: str, modules: Mapping[str, Sequence[str]], remedy: str) -> Callable[[str], Any]:
    """A package's `__getattr__`. modules: which module has which names; remedy: what installs what a name needs.

    It raises SapoError where what the name needs is not installed, AttributeError for any other name.
    """
    where = {name: module for module, names in modules.items() for name in names}

    def found(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(where[name]), name)
        except ModuleNotFoundError as error:
            raise SapoError(
                f"this installation has no {error.name}, and {package}.{name} needs it: `{remedy}`"
            ) from error

    return found
