"""Text to ids. The template's own text may use special tokens; a peer's text may not."""

from pathlib import Path

from tokenizers import Tokenizer

from sapo_verifier.errors import SapoError


class Encoder:
    """A base's tokenizer, as far as a node needs it beyond `sapo_verifier.bases.Tokenizer`: from text to ids.

    Padding, truncation and the tokenizer's own idea of a beginning and an end are off: what is asked for is encoded.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise SapoError(f"{folder} has no tokenizer.json; a base needs one")
        self._trusted = _load(path, split_special_tokens=False)
        self._foreign = _load(path, split_special_tokens=True)

    def prompt(self, text: str) -> list[int]:
        """Ids of a rendered template: special tokens written in it are recognised.

        Raises SapoError for text that the tokenizer cannot spell.
        """
        ids = _encode(self._trusted, text)
        if not ids or self._trusted.decode(ids, skip_special_tokens=False) != text:
            raise SapoError(f"the tokenizer cannot spell the prompt {text[:80]!r}; take another template or base")
        return ids

    def external(self, text: str) -> list[int] | None:
        """Ids of a peer's text: a literal "<|im_end|>" stays text, and nothing is added at the end.

        None if the ids do not decode to the text again: then the text cannot be learned from.
        """
        ids = _encode(self._foreign, text)
        return ids if self._foreign.decode(ids, skip_special_tokens=False) == text else None


def _load(path: Path, *, split_special_tokens: bool) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = split_special_tokens
    return tokenizer


def _encode(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)
