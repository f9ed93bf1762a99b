"""Compact prompts for tiny models: a task letter, the payload, `=`, one token per character.

| dataset | prompt | answer |
|---|---|---|
| basic_arithmetic | `B12*7=` | `84` |
| base_conversion | `C1011,2,3=` (digits, their base, the base asked for) | `102` |
| decimal_arithmetic | `D9.5/0.7=` | `13.57` (to the digits that the question asks for) |
| fraction_simplification | `F33/36=` | `11/12` |
| binary_matrix | `M010/110/111=` (rows) | the rows: `0 1 0`, newline, … |
| count_bits | `O201=` | `4` |
| spell_backward | `Sword=` | `drow` |
| gcd | `G48,18=` | `6` |
| number_sorting | `N+12,7,80=` (+ ascending, - descending) | `[7,12,80]` |
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from sapo_verifier.errors import TaskError
from sapo_verifier.spec import COMPACT_MAX_BYTES
from sapo_verifier.tasks.readings import decimal
from sapo_verifier.tasks.task import Task

COMPACT_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzBCDFGMNOS+-*/=.,[] \n<>"
"""Every character of the compact prompts and right answers, and the brackets around an answer. The pocket tokenizer
has one token for each, in this order."""

Metadata = Mapping[str, Any]


def compact_prompt(dataset: str, question: str, metadata: Metadata) -> str:
    """The compact prompt of an entry.

    Raises TaskError if the dataset has none, or if the prompt is beyond 32 bytes or outside the alphabet: then the
    configuration is too large for a tiny model.
    """
    payload = _PAYLOADS.get(dataset)
    if payload is None:
        known = ", ".join(_PAYLOADS)
        raise TaskError(f"dataset {dataset!r} has no compact prompt; use one of {known}, or another template")
    prompt = payload(question, metadata) + "="
    if len(prompt.encode()) > COMPACT_MAX_BYTES:
        raise TaskError(f"the compact prompt {prompt!r} of {dataset} is beyond {COMPACT_MAX_BYTES} bytes")
    if strange := set(prompt) - set(COMPACT_ALPHABET):
        raise TaskError(f"the compact prompt {prompt!r} of {dataset} has {sorted(strange)} outside the alphabet")
    return prompt


def compact_answer(task: Task) -> str:
    """The right answer as a tiny model should learn to write it: short, and still right."""
    if task.dataset == "number_sorting":
        return "[" + ",".join(map(_short, task.metadata["sorted_numbers"])) + "]"
    if task.dataset == "decimal_arithmetic":
        return decimal(task.answer) or task.answer
    return task.answer.lower() if task.dataset == "spell_backward" else task.answer


def _short(number: str) -> str:
    return number.removesuffix(".0")


def _basic_arithmetic(_: str, metadata: Metadata) -> str:
    return "B" + str(metadata["expression"]).replace(" ", "")


def _base_conversion(_: str, metadata: Metadata) -> str:
    return f"C{metadata['source_repr']},{metadata['source_base']},{metadata['target_base']}"


def _decimal_arithmetic(question: str, metadata: Metadata) -> str:
    # The metadata does not hold the expression: it is the question's last line, before " = ?".
    expression = question.rsplit("\n", 1)[-1].removesuffix(" = ?")
    if metadata["num_terms"] == 2:  # parentheses around the whole, there by chance, say nothing
        expression = re.sub(r"[()]", "", expression)
    return "D" + expression


def _fraction_simplification(_: str, metadata: Metadata) -> str:
    return f"F{metadata['numerator']}/{metadata['denominator']}"


def _binary_matrix(_: str, metadata: Metadata) -> str:
    return "M" + "/".join("".join(map(str, row)) for row in metadata["matrix"])


def _count_bits(_: str, metadata: Metadata) -> str:
    return f"O{metadata['number']}"


def _spell_backward(_: str, metadata: Metadata) -> str:
    return "S" + str(metadata["word"]).lower()


def _gcd(_: str, metadata: Metadata) -> str:
    return "G" + ",".join(map(str, metadata["numbers"]))


def _number_sorting(_: str, metadata: Metadata) -> str:
    sign = "+" if metadata["direction"] == "ascending" else "-"
    return "N" + sign + ",".join(map(_short, metadata["original_numbers"]))


_PAYLOADS: dict[str, Callable[[str, Metadata], str]] = {
    "basic_arithmetic": _basic_arithmetic,
    "base_conversion": _base_conversion,
    "decimal_arithmetic": _decimal_arithmetic,
    "fraction_simplification": _fraction_simplification,
    "binary_matrix": _binary_matrix,
    "count_bits": _count_bits,
    "spell_backward": _spell_backward,
    "gcd": _gcd,
    "number_sorting": _number_sorting,
}
