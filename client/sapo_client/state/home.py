"""A node's home folder: what lies where, how it is made, and that only one process uses it."""

import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sapo_client.state.joining import refuse_too_many, take
from sapo_client.state.moved import refuse_moved
from sapo_client.state.settings import IpfsSettings, Settings
from sapo_verifier.errors import UnableError
from sapo_verifier.files import lock_file

if TYPE_CHECKING:
    from sapo_verifier.network_file import NetworkFile

log = logging.getLogger(__name__)

KEYSTORE = "keystore.json"
OUTBOX = "outbox.sqlite"
PINS = "pins.sqlite"
BALLOTS = "ballots.sqlite"
REQUESTS = "requests.sqlite"
CHECKPOINTS = "checkpoints"
BLOCKS = "ipfs"  # of the embedded daemon
OWED = "owed"  # copies of the node's own blocks
ENGINE = "engine"  # what a vLLM process reads, and its log
LOCK = "lock"


def init(
    home: Path,
    settings: Settings,
    password_file: Path | None,
    *,
    light: bool = False,
    network: "NetworkFile | None" = None,
    key: Path | None = None,
) -> str:
    """Make a home: settings and an encrypted key. Returns the address.

    network: what it is to take the deployment from, instead of the settings' file. light: a cheap key derivation, for
    devnets and tests only. key: a keystore file to copy, which the password has to open, instead of a new key.
    Raises SapoError if the home has a node already, the settings do not fit the network, or the policy's folder says
    that no node could run it.
    """
    from sapo_verifier import keystore
    from sapo_verifier.bases import base_in
    from sapo_verifier.chain.deployment import Deployment
    from sapo_verifier.folders import check_supported
    from sapo_verifier.ipfs import parse_endpoint

    spec = (network.deployment if network else Deployment.load(settings.chain.deployment)).spec
    refuse_too_many(settings.sapo.own_groups, spec, "the options")
    for address in (settings.ipfs.api, settings.ipfs.gateway):
        parse_endpoint(address, allow_private=True)
    public_endpoint(settings.ipfs, "--endpoint")
    base = base_in(spec, settings.policy.folder, settings.policy.base)
    check_supported(settings.policy.folder)
    settings = settings.changed({"policy": {"base": base.id}}, "the options")
    password = keystore.read_password(password_file)
    with private(home):
        settings.refuse_overwriting(home)
        factor = keystore.LIGHT_WORK_FACTOR if light else keystore.SCRYPT_WORK_FACTOR
        # Settings last: what fails before them can be tried again.
        if network is not None:
            take(home, network)
        if key is None:
            address = keystore.create(home / KEYSTORE, password, work_factor=factor)
        else:
            address = keystore.adopt(key, home / KEYSTORE, password)
        settings.write(home)
    return address


@contextmanager
def private(home: Path) -> Iterator[None]:
    """The home is the owner's alone (mode 0700), and so is what this process and its children write, whatever the
    umask: logs and reports say what a node earns, checkpoints are what it learned."""
    home.mkdir(parents=True, exist_ok=True)
    if (mode := stat.S_IMODE(home.stat().st_mode)) & 0o077:
        try:
            home.chmod(0o700)
        except PermissionError:
            log.warning("%s can be read by other users (mode %04o), and only its owner can change that", home, mode)
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def public_endpoint(ipfs: IpfsSettings, where: str) -> str:
    """Where peers find this node's blocks. where: what the operator can change it with.

    Raises EndpointError for what peers would refuse, as this node itself would.
    """
    from sapo_verifier.ipfs import EndpointError, parse_endpoint

    endpoint = ipfs.endpoint or ipfs.gateway
    try:
        parse_endpoint(endpoint, allow_private=ipfs.allow_private)
    except EndpointError as error:
        if ipfs.endpoint is not None:
            raise
        raise EndpointError(
            f"peers are to fetch this node's blocks from {endpoint}, where its daemon listens, and cannot: {error}. "
            f"Say with {where} where they reach it, such as /dns4/node.example.org/tcp/443/https; on a devnet, where "
            "everybody is on this machine, --allow-private (allow_private) is enough"
        ) from error
    return endpoint


@contextmanager
def only_one(home: Path, *, moved: bool = False) -> Iterator[None]:
    """Hold the home for this process, and keep it private; the kernel lets go however we end.

    moved: it may be of a node that went elsewhere. Raises UnableError if another process holds it, or if it is such a
    one and `moved` does not say that it may be.
    """
    with private(home):
        for _ in range(5):
            if (held := lock_file(home / LOCK)) is not None:
                break
            time.sleep(0.1)  # it may be `is_held`, which looks for a moment only
        else:
            raise UnableError(f"another process runs the node in {home}; stop it first, or choose another --home")
        try:
            os.ftruncate(held, 0)
            os.pwrite(held, str(os.getpid()).encode(), 0)
            if not moved:
                refuse_moved(home)
            yield
        finally:
            os.close(held)


def is_held(home: Path) -> bool:
    """Whether a process runs the node. Unlike its number, which comes again, this cannot be mistaken."""
    if (looked := lock_file(home / LOCK, shared=True)) is None:
        return True
    os.close(looked)
    return False


def holder(home: Path) -> int | None:
    """The number of the process that holds the home, or held it last; None where none is noted."""
    try:
        text = (home / LOCK).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isascii() and text.isdecimal() else None
