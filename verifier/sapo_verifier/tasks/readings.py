"""How an answer is read, and when it is right: it reads as the item's own answer does (docs/protocol.md, Rewards).

No scorer of the library's runs. A reading is a pattern and a canonical form, so every answer gets a result in a time
that grows with its length alone, and nothing in it is evaluated.
"""

import re
from collections.abc import Callable, Hashable

from sapo_verifier.catalogue import CATALOGUE

_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_ITEM = rf"(?:{_NUMBER}|'{_NUMBER}'|\"{_NUMBER}\")"
_BLANK = r"[ \t\n\r]*"

# A change of a pattern changes what is paid: another network.
DECIMAL = re.compile(_NUMBER)
FRACTION = re.compile(r"[ $]*(?:\\d?frac *\{ *([0-9]+) *\} *\{ *([0-9]+) *\}|([0-9]+) */ *([0-9]+))[ $]*")
NUMBERS = re.compile(rf"\[{_BLANK}{_ITEM}(?:{_BLANK},{_BLANK}{_ITEM})*{_BLANK}\]")

_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def right(dataset: str, answer: str, truth: str) -> bool:
    """Whether an answer earns, `truth` being the item's own. Total: an answer that has no reading is not right."""
    read = reading(dataset, answer)
    return read is not None and read == reading(dataset, truth)


def reading(dataset: str, answer: str) -> Hashable | None:
    """The canonical form of an answer to a dataset's questions, None for what cannot be one."""
    return _READINGS[CATALOGUE[dataset]](answer)


def shows(dataset: str, question: str, truth: str) -> bool:
    """Whether a question holds its answer, so that copying earns: such an item is passed over in a deal.

    Looked for as it stands (a list without its brackets and quotes), case of ASCII letters aside, with no ASCII letter
    or digit beside it.
    """
    if CATALOGUE[dataset] == "numbers":
        truth = re.sub(r"[\[\]'\"]", "", truth)
    inner = re.escape(truth.translate(_LOWER))
    return re.search(rf"(?<![a-z0-9]){inner}(?![a-z0-9])", question.translate(_LOWER)) is not None


def _text(answer: str) -> str | None:
    return answer or None


def _letters(answer: str) -> str | None:
    return answer.translate(_LOWER) or None


def decimal(answer: str) -> str | None:
    """A decimal without zeros at its ends and without a sign before zero: `-03.10` is `-3.1`, `-0.0` is `0`."""
    return _short(answer) if DECIMAL.fullmatch(answer) else None


def _fraction(answer: str) -> tuple[str, ...] | None:
    found = FRACTION.fullmatch(answer)
    return tuple(_short(part) for part in found.groups() if part) if found else None


def _numbers(answer: str) -> tuple[str, ...] | None:
    return tuple(map(_short, re.findall(_NUMBER, answer))) if NUMBERS.fullmatch(answer) else None


def _short(number: str) -> str:
    whole, _, places = number.removeprefix("-").partition(".")
    whole, places = whole.lstrip("0") or "0", places.rstrip("0")
    size = f"{whole}.{places}" if places else whole
    return f"-{size}" if number.startswith("-") and size != "0" else size


_READINGS: dict[str, Callable[[str], Hashable | None]] = {
    "text": _text,
    "letters": _letters,
    "decimal": decimal,
    "fraction": _fraction,
    "numbers": _numbers,
}
