"""Bases: the models that policies start from. Found by the digest over their files; tokenizers without torch."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer as RustTokenizer

from sapo_verifier import canonical
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import SapoError, UnableError, UsageError
from sapo_verifier.folders import TOKENIZER, BaseLoadError, base_files
from sapo_verifier.objects import hex_digest
from sapo_verifier.spec import BaseRule, Spec


class BaseMissingError(UnableError):
    """No folder at hand holds the base."""


def digest_of_folder(folder: Path) -> bytes:
    """sha2-256 of the canonical JSON {name: sha2-256 of the file}, over the files that make a base.

    Those are folders.base_files; whatever else the folder holds makes no difference. Raises SapoError, naming the file
    that is missing or wrong.
    """
    files = {}
    for name in base_files(folder):
        path = folder / name
        try:
            with path.open("rb") as file:
                files[name] = hex_digest(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise BaseLoadError(f"{path} cannot be read: {error.strerror}; make it readable") from error
    return block_digest(canonical.encode(files))


def find_base(rule: BaseRule, folders: Iterable[Path]) -> Path:
    """The first folder that holds exactly the base's files. Raises BaseMissingError, naming what was looked at."""
    looked = []
    for folder in folders:
        try:
            found = digest_of_folder(folder)
        except SapoError as error:  # no reason not to look at the next one
            looked.append(f"{folder} ({error})" if folder.is_dir() else f"{folder} (no such folder)")
            continue
        if found == rule.digest:
            return folder
        looked.append(f"{folder} (digest {hex_digest(found)[:12]}…)")
    raise BaseMissingError(
        f"base {rule.id} with digest {hex_digest(rule.digest)} was not found. Give its folder with --base-folder. "
        f"Looked at: {', '.join(looked) or 'nothing'}"
    )


def base_in(spec: Spec, folder: Path, base_id: str | None) -> BaseRule:
    """The base of the spec that `base_id` names; None: the one whose files the folder holds.

    Raises UsageError where the spec has no such base, or several whose files these are; BaseMissingError where it has
    none. Both list what it has.
    """
    known = ", ".join(f"{base.id} ({hex_digest(base.digest)})" for base in spec.bases)
    if base_id is not None:
        base = spec.base(base_id)
        if base is None:
            raise UsageError(f"the network's spec has no base {base_id!r}; choose one of: {known}")
        return base
    digest = digest_of_folder(folder)
    found = [base for base in spec.bases if base.digest == digest]
    if not found:
        raise BaseMissingError(
            f"{folder} (digest {hex_digest(digest)}) holds no base of the network's spec, which has: {known}. Give the "
            "folder of one of them"
        )
    if len(found) > 1:
        raise UsageError(
            f"{folder} holds the files of several bases of the spec; say which with --base: "
            f"{', '.join(base.id for base in found)}"
        )
    return found[0]


class Bases:
    """The bases at hand, each looked for once: hashing a model's files takes seconds."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = list(folders)
        self._found: dict[bytes, Path] = {}
        self._tokenizers: dict[bytes, Tokenizer] = {}

    def folder(self, rule: BaseRule) -> Path:
        """Raises BaseMissingError."""
        if rule.digest not in self._found:
            self._found[rule.digest] = find_base(rule, self._folders)
        return self._found[rule.digest]

    def tokenizer(self, rule: BaseRule) -> "Tokenizer":
        """Raises BaseMissingError, or SapoError for a base without tokenizer.json."""
        if rule.digest not in self._tokenizers:
            self._tokenizers[rule.digest] = Tokenizer(self.folder(rule))
        return self._tokenizers[rule.digest]


def rust_tokenizer(folder: Path) -> RustTokenizer:
    """tokenizer.json without padding and truncation. Raises SapoError if there is none, or none that can be read."""
    path = folder / TOKENIZER
    if not path.is_file():
        raise SapoError(f"{folder} has no {TOKENIZER}; a base needs one")
    try:
        tokenizer = RustTokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more particular
        raise SapoError(f"{path} cannot be read as a tokenizer: {str(error)[:300]}; fetch the model again") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


class Tokenizer:
    """A base's tokenizer, as far as checks need it: from ids to text, and from a rendered prompt to ids."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = rust_tokenizer(folder)
        self._tokenizer.encode_special_tokens = False
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = {token_id for token_id, token in added.items() if token.special}

    def prompt(self, text: str, template: str | None = None) -> list[int]:
        """Ids of a rendered template: special tokens written in it are recognised, none is added.

        template: what was rendered; then the question may not bring special tokens of its own, which could end its
        turn and begin another. Raises SapoError for that, and for text that the tokenizer cannot spell.
        """
        ids = self._encode(text)
        if not ids or self.decode(ids) != text:
            raise SapoError(f"the tokenizer cannot spell the prompt {text[:80]!r}; take another template or base")
        if template is not None and self._specials(ids) != self._specials(self._encode(template)):
            raise SapoError("the question spells a special token of this base; no task that may pay does")
        return ids

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _specials(self, ids: Sequence[int]) -> list[int]:
        return [token_id for token_id in ids if token_id in self._special]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids: nothing skipped, no clean-up, invalid UTF-8 as U+FFFD."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def is_special(self, text: str) -> bool:
        """Whether the text is one special token."""
        return self._tokenizer.token_to_id(text) in self._special

    def size(self, *, added: bool = True) -> int:
        """Ids below this have a token; added: those that stand beside the vocabulary included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=added))

    def max_token_bytes(self) -> int:
        """The most bytes by which one token lengthens a text inside a JSON string.

        Measured at the beginning and after another token: many tokenizers drop a leading space only at the beginning.
        """
        first = self._json_bytes([0])
        return max(max(self._json_bytes([token]), self._json_bytes([0, token]) - first) for token in range(self.size()))

    def _json_bytes(self, ids: Sequence[int]) -> int:
        return len(json.dumps(self.decode(ids), ensure_ascii=False).encode()) - 2
