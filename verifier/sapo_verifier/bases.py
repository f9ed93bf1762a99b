"""Bases: the models that policies start from. Found by the digest over all their files; tokenizers without torch."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer as RustTokenizer

from sapo_verifier import canonical
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import SapoError
from sapo_verifier.objects import hex_digest
from sapo_verifier.spec import BaseRule


class BaseMissingError(SapoError):
    """No folder at hand holds the base."""


def digest_of_folder(folder: Path) -> bytes:
    """sha2-256 of the canonical JSON {relative path: sha2-256 of the file}, over every file that is not hidden."""
    files = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            with path.open("rb") as file:
                files[relative.as_posix()] = "0x" + hashlib.file_digest(file, "sha256").hexdigest()
    if not files:
        raise SapoError(f"{folder} holds no files; give the folder of a model")
    return block_digest(canonical.encode(files))


def find_base(rule: BaseRule, folders: Iterable[Path]) -> Path:
    """The first folder that holds exactly the base's files. Raises BaseMissingError, naming what was looked at."""
    looked = []
    for folder in folders:
        try:
            found = digest_of_folder(folder)
        except SapoError:  # an empty folder, or none at all, is no reason not to look at the next one
            looked.append(f"{folder} ({'no files' if folder.is_dir() else 'no such folder'})")
            continue
        if found == rule.digest:
            return folder
        looked.append(f"{folder} (digest {hex_digest(found)[:12]}…)")
    raise BaseMissingError(
        f"base {rule.id} with digest {hex_digest(rule.digest)} was not found. Give its folder with --base. "
        f"Looked at: {', '.join(looked) or 'nothing'}"
    )


class Tokenizer:
    """A base's tokenizer, as far as checks need it: from ids to text."""

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise SapoError(f"{folder} has no tokenizer.json; a base needs one")
        self._tokenizer = RustTokenizer.from_file(str(path))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids: nothing skipped, no clean-up, invalid UTF-8 as U+FFFD."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def size(self) -> int:
        """Ids below this have a token, added tokens included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def max_token_bytes(self) -> int:
        """The most bytes by which one token lengthens a text inside a JSON string.

        Measured at the beginning and after another token: many tokenizers drop a leading space only at the beginning.
        """
        first = self._json_bytes([0])
        return max(max(self._json_bytes([token]), self._json_bytes([0, token]) - first) for token in range(self.size()))

    def _json_bytes(self, ids: Sequence[int]) -> int:
        return len(json.dumps(self.decode(ids), ensure_ascii=False).encode()) - 2
