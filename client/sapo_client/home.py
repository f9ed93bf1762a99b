"""A node's home folder: what lies where, how it is made, and that only one process uses it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sapo_client.config import Settings
from sapo_verifier.errors import SapoError

KEYSTORE = "keystore.json"
OUTBOX = "outbox.sqlite"
PINS = "pins.sqlite"
CHECKPOINTS = "checkpoints"
BLOCKS = "ipfs"  # of the embedded daemon
LOCK = "lock"


def init(home: Path, settings: Settings, password_file: Path | None, *, light: bool = False) -> str:
    """Make a home: settings and an encrypted key. Returns the address.

    light: a cheap key derivation, for devnets and tests only. Raises SapoError if the home has a node already, or the
    settings do not fit the network.
    """
    from sapo_client import keystore
    from sapo_verifier.chain.deployment import Deployment

    spec = Deployment.load(settings.chain.deployment).spec
    if spec.base(settings.policy.base) is None:
        names = ", ".join(base.id for base in spec.bases)
        raise SapoError(f"the network's spec has no base {settings.policy.base!r}; choose one of: {names}")
    home.mkdir(parents=True, exist_ok=True)
    settings.write(home)
    password = keystore.read_password(password_file)
    factor = keystore.LIGHT_WORK_FACTOR if light else keystore.SCRYPT_WORK_FACTOR
    return keystore.create(home / KEYSTORE, password, work_factor=factor)


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Hold the home for this process. Raises SapoError if another one does; the kernel lets go however we end."""
    with (home / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SapoError(
                f"another process runs the node in {home}; stop it first, or choose another --home"
            ) from error
        yield
