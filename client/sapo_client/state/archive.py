"""One file with all that a node needs to go on elsewhere: a tar, first a manifest, then what the manifest lists, in its
order and with its hashes. Any tar program can look into it.

Reading trusts nothing: names are those that a home has, members are plain files, and nothing is written that the
manifest did not announce. So neither a link nor a path leads out of the folder, and a damaged archive leaves nothing.
"""

import hashlib
import json
import os
import re
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sapo_verifier.errors import SapoError, UnableError, UsageError
from sapo_verifier.files import sync_folder

MANIFEST = "manifest.json"
MOST_MANIFEST = 1 << 26  # bytes: half a million files
CHUNK = 1 << 20
BLOCK = tarfile.BLOCKSIZE
NAMES = re.compile(
    r"(node|network)\.toml|keystore\.json|deployment\.(json|toml)|rounds\.jsonl|[a-z][a-z_-]{0,30}\.(sqlite|private)"
    r"|checkpoints/round-[0-9]{8}/[a-z_]{1,40}\.(safetensors|json)|blocks/[0-9a-f]{64}"
)

Address = Annotated[str, Field(pattern="^0x[0-9a-f]{40}$")]
Count = Annotated[int, Field(ge=0, lt=2**63)]


class ArchiveError(SapoError):
    """A file that is no whole archive of a node."""


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Entry(_Model):
    """A file of the archive. size: bytes."""

    name: str
    size: Count
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class About(_Model):
    """Whose home it was, and how far its key was when it was packed."""

    v: Literal[1] = 1
    node: Address  # the owner's
    key: Address  # the operator's: whose keystore it is
    chain_id: Count
    spec: str  # the digest of the network's rules, 0x…
    nonce: Count  # of the key: so many were used on chain
    block: Count  # the latest one then
    round: Annotated[int, Field(ge=-1, lt=2**63)]
    missing: Count  # blocks that are owed, and are not in the archive


class Manifest(_Model):
    """digest: over all the rest, so that a flipped bit is noticed here, too."""

    about: About
    files: list[Entry]
    digest: str

    def computed(self) -> str:
        document = self.model_dump(mode="json", exclude={"digest"})
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def pack(file: BinaryIO, about: About, sources: Mapping[str, Path]) -> None:
    """Write the archive, forced to disk. sources: by the name in it. Raises OSError."""
    files = []
    for name, path in sources.items():
        assert NAMES.fullmatch(name), name
        with path.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
            files.append(Entry(name=name, size=source.tell(), sha256=digest))
    bare = Manifest(about=about, files=files, digest="")
    whole = bare.model_copy(update={"digest": bare.computed()}).model_dump_json(indent=1).encode()
    file.write(_header(MANIFEST, len(whole)) + whole + _padding(len(whole)))
    for entry in files:
        file.write(_header(entry.name, entry.size))
        with sources[entry.name].open("rb") as source:
            shutil.copyfileobj(source, file, CHUNK)
        file.write(_padding(entry.size))
    file.write(bytes(2 * BLOCK))
    file.flush()
    os.fsync(file.fileno())


def unpack(path: Path, folder: Path) -> Manifest:
    """Everything in an archive, into an empty folder. The caller removes what is there if this raises.

    Raises UsageError for what cannot be read, ArchiveError for what is no whole archive, and UnableError where the disk
    is too small.
    """
    try:
        with path.open("rb") as file:
            manifest = _manifest(file, path)
            _refuse_sizes(manifest, file, path, folder)
            for entry in manifest.files:
                _extract(file, entry, path, folder)
            rest = file.read(BLOCK)
            if rest.strip(b"\0"):
                raise ArchiveError(f"{path} holds more than its manifest lists; {_AGAIN}")
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UsageError(f"the archive {path} cannot be read ({error.strerror})") from None
    for made in {(folder / entry.name).parent for entry in manifest.files}:
        sync_folder(made)
    return manifest


_AGAIN = "copy it again from where `sapo move export` wrote it. Nothing was made"


def _manifest(file: BinaryIO, path: Path) -> Manifest:
    no_archive = f"{path} is no archive of `sapo move export`"
    size = _member(file, MANIFEST, no_archive)
    if size > MOST_MANIFEST:
        raise ArchiveError(f"{no_archive}: its manifest has {size} bytes")
    data = _read(file, size, path)
    file.read(len(_padding(size)))
    try:
        document = json.loads(data)
        version = document["about"]["v"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ArchiveError(f"the manifest of {path} is damaged; {_AGAIN}") from None
    if version != 1:
        raise ArchiveError(f"{path} is of version {version}, and this program reads 1: use the release that wrote it")
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ArchiveError(f"the manifest of {path} is damaged ({where}: {first['msg']}); {_AGAIN}") from None
    if manifest.computed() != manifest.digest:
        raise ArchiveError(f"the manifest of {path} is not what was written; {_AGAIN}")
    names = [entry.name for entry in manifest.files]
    for name in names:
        if not NAMES.fullmatch(name):
            raise ArchiveError(f"{path} holds {name[:80]!r}, which no home has; it was not made by `sapo move export`")
    if len(set(names)) < len(names):
        raise ArchiveError(f"{path} lists a file twice; it was not made by `sapo move export`")
    return manifest


def _refuse_sizes(manifest: Manifest, file: BinaryIO, path: Path, folder: Path) -> None:
    """Before anything is written."""
    wanted = file.tell() + sum(BLOCK + entry.size + len(_padding(entry.size)) for entry in manifest.files)
    found = os.fstat(file.fileno()).st_size
    if found < wanted:
        raise ArchiveError(f"{path} has {found} bytes, and {wanted} were written: it was cut; {_AGAIN}")
    needed, free = sum(entry.size for entry in manifest.files), shutil.disk_usage(folder).free
    if needed > free:
        raise UnableError(f"{path} unpacks to {needed} bytes, and the disk of {folder.parent} has {free} left")


def _extract(file: BinaryIO, entry: Entry, path: Path, folder: Path) -> None:
    broken = f"{entry.name} in {path} is not what the manifest lists; {_AGAIN}"
    if _member(file, entry.name, broken) != entry.size:
        raise ArchiveError(broken)
    target = folder / entry.name
    target.parent.mkdir(parents=True, exist_ok=True)
    hashed, left = hashlib.sha256(), entry.size
    mode = 0o400 if entry.name == "keystore.json" else 0o600
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as made:
        while left:
            part = _read(file, min(left, CHUNK), path)
            hashed.update(part)
            made.write(part)
            left -= len(part)
        made.flush()
        os.fsync(made.fileno())
    if hashed.hexdigest() != entry.sha256:
        raise ArchiveError(broken)
    file.read(len(_padding(entry.size)))


def _member(file: BinaryIO, name: str, words: str) -> int:
    """The size of the next member, which has to be this plain file. Raises ArchiveError with the words."""
    try:
        info = tarfile.TarInfo.frombuf(file.read(BLOCK), "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        raise ArchiveError(words) from None
    if info.type != tarfile.REGTYPE or info.name != name or info.size < 0:
        raise ArchiveError(words)
    return info.size


def _read(file: BinaryIO, size: int, path: Path) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise ArchiveError(f"{path} was cut; {_AGAIN}")
    return data


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info.tobuf(tarfile.GNU_FORMAT)  # which has room for files of any size


def _padding(size: int) -> bytes:
    return bytes(-size % BLOCK)
