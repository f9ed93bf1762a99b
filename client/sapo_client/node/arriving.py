"""A node from an archive, in a home on this machine: once it is certain that the old one sends nothing any more."""

import logging
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sapo_client.node.alone import Watch
from sapo_client.node.moving import PRIVATE_FILES, refuse_acted
from sapo_client.node.patience import Patience
from sapo_client.state import home as layout
from sapo_client.state.archive import About, ArchiveError, unpack
from sapo_client.state.assignments import merged
from sapo_client.state.settings import FILE_NAME, IpfsSettings, Settings
from sapo_client.state.staging import arriving, refuse_taken, settle
from sapo_client.transactions.strangers import Signed, nonces_used
from sapo_verifier import keystore
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.reader import ChainReader, open_chain
from sapo_verifier.errors import UsageError

log = logging.getLogger(__name__)

BLOCKS = "blocks"  # in the archive
REMEDY = "Nothing was made here: stop the old one, export it anew, and import that"


def arrive(
    archive: Path,
    home: Path,
    changes: Mapping[str, Any],
    rpcs: Sequence[str] | None,
    *,
    i_know: bool,
    say: Callable[[str], None],
) -> tuple[About, int]:
    """Make the home. What is told of the node, and how many owed blocks came with it.

    changes: settings instead of the archive's. rpcs: instead of the settings', for this alone. i_know: neither look nor
    wait whether the old one still acts. Raises SapoError in words; nothing is there then.
    """
    home = home.absolute()
    with arriving(home) as aside:
        about = unpack(archive.expanduser(), aside).about
        deployment = _checked(aside, about, archive)
        settings = fitted(aside, home, changes)
        with open_chain(deployment, rpcs or settings.chain.rpc_urls(aside)) as reader:
            if not i_know:
                chain = settings.chain
                wait = chain.confirmations, chain.poll_seconds, Patience(chain.patience_minutes, chain.poll_seconds)
                _wait_until_old(reader, Signed(about.key, aside / layout.OUTBOX), about, *wait, say)
        blocks = sorted((aside / BLOCKS).iterdir()) if (aside / BLOCKS).exists() else []
        refuse_taken(aside, home)
        _put(blocks, aside, home, settings.ipfs)
        for block in blocks:
            block.unlink()
        if blocks:
            (aside / BLOCKS).rmdir()
        settle(aside, home)
    return about, len(blocks)


def _checked(aside: Path, about: About, archive: Path) -> Deployment:
    """Raises ArchiveError where the files are not those of the node that the manifest names."""
    found = sorted(aside.glob("deployment.*"))
    if not found or not (aside / FILE_NAME).exists() or not (aside / layout.KEYSTORE).exists():
        raise ArchiveError(f"{archive} has no settings, no key or no deployment: it was not made by `sapo move export`")
    deployment = Deployment.load(found[0])
    held = (keystore.address_of(aside / layout.KEYSTORE), deployment.chain_id, "0x" + deployment.spec_digest.hex())
    if held != (about.key, about.chain_id, about.spec):
        raise ArchiveError(f"{archive} holds the key or the deployment of another node than its manifest names")
    return deployment


def fitted(aside: Path, home: Path, changes: Mapping[str, Any]) -> Settings:
    """The settings in `aside` as they hold in `home`, written back; what lies in `aside` is named where it will be.

    Raises UsageError that names every path which does not exist here, with the option to give.
    """
    path = aside / FILE_NAME
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    own: dict[str, Any] = {"chain": {"deployment": str(home / next(aside.glob("deployment.*")).name)}}
    for (section, key), name in PRIVATE_FILES.items():
        if (aside / name).exists():
            own = merged(own, {section: {key: name}}, FILE_NAME)
    settings = Settings.checked(merged(merged(document, own, str(path)), changes, "the options"), "the settings")
    if missing := list(_missing(settings)):
        raise UsageError(
            "the settings name what does not exist on this machine. Give: " + "; ".join(missing) + ". Nothing was made"
        )
    path.unlink()
    settings.write(aside)
    return settings


def _missing(settings: Settings) -> list[str]:
    """Each path that is not here, and what to give instead."""
    policy, python, log_file = settings.policy.folder, settings.generation.vllm_python, settings.log.file
    words = []
    if not policy.is_dir():
        words.append(f"--policy MODEL, as there is no {policy}")
    if gone := [str(folder) for folder in settings.audit.bases if not folder.is_dir()]:
        words.append(f"--set 'audit.bases=[\"FOLDER\"]' (or []), as there is no {' and no '.join(gone)}")
    if python is not None and not python.expanduser().exists():
        words.append(f"--set generation.vllm_python=PYTHON, as there is no {python}")
    if log_file is not None and log_file.is_absolute() and not log_file.parent.is_dir():
        words.append(f"--set log.file=FILE, as there is no {log_file.parent}")
    return words


def _wait_until_old(
    reader: ChainReader,
    signed: Signed,
    about: About,
    confirmations: int,
    poll_seconds: float,
    patience: Patience,
    say: Callable[[str], None],
) -> None:
    """Until what the old one can have sent last is so deep in the chain that it is settled, and nothing came after it.

    Raises UnableError where its key acted without its outbox, and ChainUnavailable once the patience is over.
    """
    refuse_acted(reader, signed, about, "the archive")
    head = reader.block_number()
    quiet = about.block + min(confirmations, reader.deployment.spec.chain.round_blocks)
    if head < quiet:
        say(
            f"waiting until block {quiet} (this is {head}), so that nothing of the old node is on its way any more; "
            "--i-know does not wait"
        )
    pending = nonces_used(reader, signed.address, "pending") or 0
    watch, pause = Watch(reader, signed, head, max(head, quiet), pending, REMEDY), threading.Event()
    while True:
        wait = poll_seconds
        try:
            if watch.is_over():
                return
            patience.answered()
            patience.well()
        except ChainUnavailable as error:
            wait = patience.after(error)
        pause.wait(wait)


def _put(blocks: Sequence[Path], aside: Path, home: Path, ipfs: IpfsSettings) -> None:
    """Owed blocks, to the daemon that the node waits for, or into the repository of its own. aside: where a file of
    credentials lies still. Raises StoreFailed."""
    if not blocks:
        return
    from sapo_verifier.ipfs import BlockStore, read_credentials
    from sapo_verifier.ipfs.daemon.repo import BlockRepo

    if ipfs.daemon == "external":
        secret = read_credentials(aside / PRIVATE_FILES["ipfs", "api_auth_file"]) if ipfs.api_auth_file else None
        seconds = ipfs.seconds_per_source
        with BlockStore(ipfs.api, allow_private=ipfs.allow_private, timeout=seconds, credentials=secret) as store:
            for block in blocks:
                store.put(block.read_bytes())
        return
    with closing(BlockRepo(home / layout.BLOCKS)) as repo:
        for block in blocks:
            repo.put(block.read_bytes(), pin=True)
