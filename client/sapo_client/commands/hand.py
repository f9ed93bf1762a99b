"""A stopped node in a command's hand: the home held, the key unlocked, chain and outbox open, and all of it closed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sapo_client.state.settings import Settings
    from sapo_client.transactions.outbox import Outbox
    from sapo_verifier.chain.reader import ChainReader


@dataclass(frozen=True)
class Hand:
    """node: the owner's address; the outbox's is that of the key."""

    node: str
    reader: "ChainReader"
    outbox: "Outbox"


@contextmanager
def in_hand(
    home: Path, settings: "Settings", password_file: Path | None, rpcs: Sequence[str] | None = None
) -> Iterator[Hand]:
    """rpcs: instead of the settings'. Raises UnableError where another process holds the home, and SapoError for a key
    that does not open or a chain that is another one."""
    from sapo_client.state import home as layout
    from sapo_client.transactions.outbox import Outbox
    from sapo_verifier import keystore
    from sapo_verifier.chain.deployment import Deployment
    from sapo_verifier.chain.reader import open_chain

    with layout.only_one(home):
        account = keystore.load(home / layout.KEYSTORE, keystore.read_password(password_file))
        urls = rpcs or settings.chain.rpc_urls(home)
        with open_chain(Deployment.load(settings.chain.deployment), urls) as reader:
            outbox = Outbox.at_home(home, settings.chain, reader, account)
            try:
                yield Hand(settings.chain.owner or account.address.lower(), reader, outbox)
            finally:
                outbox.close()
