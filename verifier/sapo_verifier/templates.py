"""How a task is put to a model that was trained on conversations: the styles that are known, and which one a tokenizer
has the marks of."""

from collections.abc import Sequence
from typing import NamedTuple

from sapo_verifier.bases import Tokenizer
from sapo_verifier.errors import UsageError
from sapo_verifier.spec import Answer

ANSWER_MARKS: dict[Answer, str] = {"tag": "<answer>{}</answer>", "brackets": "<{}>", "whole": "{}"}
EXAMPLES = (
    ("Calculate 12 + 31.", "43"),
    ("Convert the binary number 110 to base-10.", "6"),
    ("Spell this word backward (example: sun -> nus): tree", "eert"),
    ("Find the Greatest Common Divisor (GCD) of these numbers: 12, 8.", "4"),
)
"""Shown to models that are too small to follow an instruction at temperature 1."""


class Style(NamedTuple):
    """start, then for each turn user, question and instruction, model, answer, end. marks: what must be one token each,
    or a model reads text that it never saw."""

    start: str
    user: str
    model: str
    end: str
    marks: tuple[str, ...]


CHATML, PLAIN = "chatml", "plain"
STYLES = {
    CHATML: Style(
        "", "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n", ("<|im_start|>", "<|im_end|>")
    ),
    "llama3": Style(
        "<|begin_of_text|>",
        "<|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|eot_id|>",
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    ),
    "gemma": Style(
        "<bos>",
        "<start_of_turn>user\n",
        "<end_of_turn>\n<start_of_turn>model\n",
        "<end_of_turn>\n",
        ("<bos>", "<start_of_turn>", "<end_of_turn>"),
    ),
    PLAIN: Style("", "", "\n", "\n\n", ()),
}


def chat_template(answer: Answer, examples: Sequence[tuple[str, str]] = (), *, style: str = CHATML) -> str:
    """A base's template in a style; ChatML is what SmolLM2, Qwen and others were trained on.

    examples: questions and right answers, shown before the question in the way that the spec's answers have.
    """
    start, user, model, end, _ = STYLES[style]
    turns = "".join(f"{user}{question}{model}{ANSWER_MARKS[answer].format(right)}{end}" for question, right in examples)
    return start + turns + user + "{question}\n{instruction}" + model


def check_style(tokenizer: Tokenizer, style: str, base_id: str) -> None:
    """Raises UsageError, with the style to take instead, where a mark of the style is no special token of the base."""
    if missing := [mark for mark in STYLES[style].marks if not tokenizer.is_special(mark)]:
        fitting = next(name for name, each in STYLES.items() if all(map(tokenizer.is_special, each.marks)))
        raise UsageError(
            f"the tokenizer of {base_id} has no special token {' and no '.join(missing)}, so its model was not trained "
            f"on the {style} template and would read its marks as text; take --template {fitting}"
        )
