"""To ids: a task's prompt, and a peer's text, which may not use special tokens, as a template's own text may."""

from pathlib import Path

from sapo_verifier.bases import Tokenizer, rust_tokenizer
from sapo_verifier.spec import BaseRule
from sapo_verifier.tasks import Task, render


def prompt_ids(tokenizer: Tokenizer, base: BaseRule, task: Task, answer: str) -> list[int]:
    """A task's prompt, rendered for a base. answer: the spec's. Raises SapoError for what the tokenizer cannot spell,
    and for a question that brings special tokens."""
    return tokenizer.prompt(render(task, base.template, answer), base.template)


class Encoder:
    """A base's tokenizer for texts that strangers wrote. Raises SapoError for a folder without one."""

    def __init__(self, folder: Path) -> None:
        self._foreign = rust_tokenizer(folder)
        self._foreign.encode_special_tokens = True

    def external(self, text: str) -> list[int] | None:
        """Ids of a peer's text: a literal "<|im_end|>" stays text, and nothing is added at the end.

        None if the ids do not decode to the text again: then the text cannot be learned from.
        """
        ids = list(self._foreign.encode(text, add_special_tokens=False).ids)
        return ids if self._foreign.decode(ids, skip_special_tokens=False) == text else None
