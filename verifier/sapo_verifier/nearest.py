"""A mistyped name of a setting: the one that was probably meant, for the error that refuses it."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

ALIKE = 0.6  # of difflib, from 0 to 1


def first_mistake(error: ValidationError, model: type[BaseModel]) -> tuple[str, Any, str]:
    """Where, with what value, and what is wrong: of a key that is none before anything else, since a name that is
    mistyped is missing as well. model: what the document was to be."""
    found = error.errors(include_url=False)
    first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
    where, words = ".".join(map(str, first["loc"])), str(first["msg"])
    if first["type"] == "extra_forbidden":
        meant = nearest(where, list(keys_of(model)))
        words = "there is no such key" + (f"; the nearest is {meant}" if meant else "")
    return where, first["input"], words


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that `name` was probably meant to be; None where none is like it. Names are dotted.

    The right name in the wrong section counts before one that is like it in its own.
    """
    section, _, last = name.rpartition(".")
    siblings = [each for each in known if each.rpartition(".")[0] == section]
    for candidates, alike in ((known, 1.0), (siblings, ALIKE), (known, ALIKE)):
        by_last = {each.rpartition(".")[2]: each for each in reversed(candidates)}
        if found := get_close_matches(last, by_last, 1, alike):
            return by_last[found[0]]
    return None


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The keys of a document of this model, those of its sections included, dotted."""
    for name, field in model.model_fields.items():
        yield prefix + name
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from keys_of(kind, f"{prefix}{name}.")
