"""A stopped node leaves its home: everything that it needs to go on elsewhere in one file, and the home is marked, so
that it acts nowhere twice."""

import hashlib
import logging
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_client.state import home as layout
from sapo_client.state.archive import About, pack
from sapo_client.state.joining import NETWORK
from sapo_client.state.moved import Moved, mark, read_mark, unmark
from sapo_client.state.report import ROUNDS_FILE
from sapo_client.state.settings import FILE_NAME, Settings
from sapo_client.state.sqlite import DatabaseBrokenError, disk_failure
from sapo_client.transactions.strangers import Signed, listed, nonces_used, strangers_since
from sapo_verifier import keystore
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.reader import ChainReader, open_chain
from sapo_verifier.errors import UnableError, UsageError
from sapo_verifier.files import sync_folder
from sapo_verifier.ipfs.daemon.repo import block_file

if TYPE_CHECKING:
    from sapo_client.policy.checkpoint import Checkpoint

log = logging.getLogger(__name__)

ASIDE = ".leaving"  # copies of what others may write meanwhile
CHECKPOINTS = 2  # the last one, and the one before: a reorganization can have a batch made again with its weights
# Secrets in files of their own, which the settings name, by section and key; in the archive and the new home so.
PRIVATE_FILES = {
    ("chain", "rpc_file"): "rpcs.private",
    ("ipfs", "api_auth_file"): "ipfs-api.private",
    ("alerts", "webhook_file"): "webhook.private",
}


@dataclass(frozen=True)
class Left:
    """What was written. size: bytes; blocks: that are still owed, and in it."""

    about: About
    size: int
    blocks: int


def leave(home: Path, target: Path, rpcs: Sequence[str] | None) -> Left:
    """Write the archive of a node, and mark its home as left. rpcs: instead of the home's.

    Raises UsageError where the target exists, UnableError where the node runs or was moved already,
    DatabaseBrokenError, ChainUnavailable; the node can go on here then.
    """
    settings = Settings.load(home)
    target = target.expanduser().absolute()
    if target.exists():
        raise UsageError(f"{target} exists already; name another file")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}; make it, or name another file")
    with layout.only_one(home), _aside(home) as copies:
        key = keystore.address_of(home / layout.KEYSTORE)
        deployment = Deployment.load(settings.chain.deployment)
        with open_chain(deployment, rpcs or settings.chain.rpc_urls(home)) as reader:
            block, round_ = reader.block_number(), reader.current_round()
            nonce = nonces_used(reader, key, block)
        if nonce is None:
            raise ChainUnavailable("the chain's RPC does not say how many nonces the key has used; try again")
        sources = _files(home, settings, copies)
        wanted, blocks = _owed(home, sources.get(layout.PINS), round_)
        about = About(
            node=settings.chain.owner or key,
            key=key,
            chain_id=deployment.chain_id,
            spec="0x" + deployment.spec_digest.hex(),
            nonce=nonce,
            block=block,
            round=round_,
            missing=wanted - len(blocks),
        )
        size = _write(home, target, about, sources | blocks)
    return Left(about, size, len(blocks))


def stay(home: Path, rpcs: Sequence[str] | None, *, i_know: bool) -> None:
    """Undo `leave`: the node may go on here. i_know: whatever its key did since.

    Raises UsageError where it was not moved, and UnableError where its key acted without this home.
    """
    settings = Settings.load(home)
    with layout.only_one(home, moved=True):
        moved = read_mark(home)
        if moved is None:
            raise UsageError(f"the node in {home} was not moved: there is nothing to undo")
        if not i_know:
            with open_chain(
                Deployment.load(settings.chain.deployment), rpcs or settings.chain.rpc_urls(home)
            ) as reader:
                refuse_acted(reader, Signed(moved.about.key, home / layout.OUTBOX), moved.about, "this home")
        unmark(home)


def refuse_acted(reader: ChainReader, signed: Signed, about: About, whose: str) -> None:
    """Raises UnableError where the key sent anything after the archive was written that the outbox does not know."""
    if found := strangers_since(reader, signed, about.nonce, about.block):
        raise UnableError(
            f"since the node was packed in round {about.round}, its key {about.key} sent what {whose} does not know: "
            f"{listed(found)}. So the node ran elsewhere: go on there, or stop it and export it there anew. If it is "
            "lost there, --i-know goes on here; what it promised meanwhile costs its fees (docs/operators.md, Backup)"
        )


@contextmanager
def _aside(home: Path) -> Iterator[Path]:
    folder = home / ASIDE
    shutil.rmtree(folder, ignore_errors=True)  # of one that was killed
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _files(home: Path, settings: Settings, copies: Path) -> dict[str, Path]:
    """By their names in the archive, the settings first."""
    deployment = settings.chain.deployment
    found = {
        FILE_NAME: home / FILE_NAME,
        layout.KEYSTORE: home / layout.KEYSTORE,
        deployment_name(deployment): deployment,
    }
    found |= private_files(home, settings.model_dump())
    for path in sorted(home.glob("*.sqlite")):
        found[path.name] = copied(path, copies / path.name)
    found |= {name: home / name for name in (NETWORK, ROUNDS_FILE) if (home / name).exists()}
    return found | files_of(whole(home))


def deployment_name(path: Path) -> str:
    """What a deployment's file is called in a home, whatever it was called before."""
    return "deployment.toml" if path.suffix == ".toml" else "deployment.json"


def private_files(home: Path, document: Mapping[str, Any]) -> dict[str, Path]:
    """Those that the settings name. A relative one is the home's."""
    named = {name: document.get(section, {}).get(key) for (section, key), name in PRIVATE_FILES.items()}
    return {name: home / Path(path).expanduser() for name, path in named.items() if path}


def copied(source: Path, target: Path) -> Path:
    """A database as of one moment, whoever writes to it. Raises DatabaseBrokenError for one that is not whole."""
    try:
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
            found = new.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            new.execute("PRAGMA journal_mode = DELETE")  # one file, without another beside it
    except sqlite3.DatabaseError as error:
        if (words := disk_failure(error)) is not None:
            raise UnableError(words) from error
        raise DatabaseBrokenError(
            f"{source} cannot be copied ({error}); `sapo run` says what to do about a broken file"
        ) from error
    return target


def whole(home: Path) -> "list[Checkpoint]":
    """The last whole checkpoints, the newest first."""
    root = home / layout.CHECKPOINTS
    if not root.is_dir():
        return []
    from sapo_client.policy.checkpoint import whole_checkpoints  # torch

    return list(islice(whole_checkpoints(root, log.warning), CHECKPOINTS))


def files_of(checkpoints: "Sequence[Checkpoint]") -> dict[str, Path]:
    """By their names in a home. Without the link that peft looks for: the next checkpoint has one."""
    return {
        f"{layout.CHECKPOINTS}/{each.folder.name}/{path.name}": path
        for each in checkpoints
        for path in sorted(each.folder.iterdir())
        if not path.is_symlink()
    }


def _owed(home: Path, pins: Path | None, round_: int) -> tuple[int, dict[str, Path]]:
    """How many blocks some round from `round_` on needs, and those that lie here whole."""
    if pins is None:
        return 0, {}
    with closing(sqlite3.connect(pins)) as db:
        digests = [bytes(row[0]) for row in db.execute("SELECT digest FROM pins WHERE until >= ?", (round_,))]
    found = {}
    for digest in digests:
        path = block_file(home / layout.BLOCKS, digest)
        for each in chain([path], home.glob(f"{layout.OWED}/*/{digest.hex()}")):
            if each.is_file() and hashlib.sha256(each.read_bytes()).digest() == digest:
                found[f"blocks/{digest.hex()}"] = each
                break
    return len(digests), found


def _write(home: Path, target: Path, about: About, sources: Mapping[str, Path]) -> int:
    """Aside first; the mark before the name, so that whoever has the archive knows that the old home is still. The
    size."""
    aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            pack(file, about, sources)
            size = file.tell()
        mark(home, Moved(archive=str(target), about=about))
        try:
            aside.rename(target)
        except OSError:
            unmark(home)
            raise
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(target.parent)
    return size
