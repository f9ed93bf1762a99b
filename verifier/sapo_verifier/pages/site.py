"""What all pages share: the chain, read at one block per request, and one verifier, used by one request at a time."""

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import LifoQueue
from typing import Self

from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.pinned import PinnedReader
from sapo_verifier.chain.reader import ChainReader, open_chain
from sapo_verifier.verify import Verifier, open_verifier

CHAINS = 4  # connections: so many requests read the chain at once, others wait


@dataclass(frozen=True)
class Audited:
    """What `open_verifier` takes."""

    gateways: Sequence[str] = ()
    base_folders: Sequence[Path] = ()
    model: bool = False
    allow_private: bool = False


@dataclass
class Site:
    """One network and what this machine has to audit it. Use it as a context manager.

    token: a secret of this process, which every form that makes it work carries: no other site can post one.
    """

    deployment: Deployment
    rpc: Sequence[str]
    audited: Audited = Audited()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def __post_init__(self) -> None:
        self._readers: LifoQueue[ChainReader | None] = LifoQueue()
        self._all = ExitStack()
        self._auditing = threading.Lock()
        self._verifier: Verifier | None = None

    def __enter__(self) -> Self:
        """Raises SapoError where the chain is not there, or another one."""
        for _ in range(CHAINS):
            self._readers.put(None)
        with self._all:
            with self.chain():
                pass
            self._all = self._all.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._all.close()

    @contextmanager
    def chain(self) -> Iterator[PinnedReader]:
        """The chain after its latest block; one thread's until the block ends. Raises SapoError."""
        reader = self._readers.get()
        try:
            if reader is None:
                reader = self._all.enter_context(open_chain(self.deployment, self.rpc))
            yield PinnedReader(reader)
        finally:
            self._readers.put(reader)

    @contextmanager
    def verifier(self, reader: PinnedReader) -> Iterator[Verifier]:
        """What fetches and checks batches of the chain as `reader` reads it: one request's at a time, others wait."""
        with self._auditing:
            if self._verifier is None:
                options = vars(self.audited)
                self._verifier = self._all.enter_context(open_verifier(reader, **options))
            yield replace(self._verifier, reader=reader)
