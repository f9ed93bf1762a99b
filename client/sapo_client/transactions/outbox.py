"""The durable outbox: every transaction of a node is on disk before it is sent, and reaches the chain once.

One outbox owns the nonces of one account. What `put` stored is signed, stored again as bytes and hash, and only then
sent; a restart first looks the hashes up. The same bytes are sent again only where the chain knows neither a receipt
nor the transaction; anything else is a replacement with the same nonce, of which at most one can be mined.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sapo_client.state import home as layout
from sapo_client.state.settings import ChainSettings
from sapo_client.transactions.delivery import Delivery, Status
from sapo_client.transactions.store import OutboxError
from sapo_verifier.chain import rpc
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.signing import GWEI

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class TxState:
    """What became of a call.

    intent: stored, not signed. sent: signed; may be mined at any time. mined: in the chain, and it succeeded.
    failed: the contract refused, before or after it was sent. expired: its deadline passed, or the chain has another
    beacon than the one that it was made for; it will never be mined.
    What was mined goes back to sent where a reorganization removes it, until it is confirmed.
    """

    status: Status
    reason: str = ""  # why it failed, or what it waits for; a sentence
    hash: bytes | None = None  # of the mined transaction
    block: int | None = None  # in which it was mined
    confirmed: bool = False  # deep enough that it is not watched any more


class Outbox(Delivery):
    """Not for several threads at once. A second one on the same file refuses to open (OutboxError).

    confirmations: how deep a transaction has to be until it is not watched for reorganizations any more.
    fee_cap: wei per gas that are never exceeded. stuck_blocks: after so many blocks without being mined, the first
    transaction in flight is replaced by one with a higher fee, at most max_replacements times.
    """

    @classmethod
    def at_home(cls, home: Path, settings: ChainSettings, reader: ChainReader, account: "LocalAccount") -> "Outbox":
        """That of a node, with its settings. Raises OutboxError, and DatabaseBrokenError for a broken file."""
        cap = int(settings.fee_cap_gwei * GWEI)
        return cls(home / layout.OUTBOX, reader, account, confirmations=settings.confirmations, fee_cap=cap)

    def close(self) -> None:
        self._store.close()

    # -- what the node calls --

    def put(
        self,
        key: str,
        call: Call,
        *,
        deadline_round: int | None = None,
        value: int = 0,
        beacon: tuple[int, bytes] | None = None,
    ) -> None:
        """Stores a call, to be sent once. Sends nothing; `pump` does.

        key: what this is, e.g. "submit/17"; a second put of the same key and call does nothing. deadline_round: the
        last round in which sending it makes sense. value: wei. beacon: (round, its beacon) that the call is made for;
        after a reorganization that gave the round another one it is not sent any more. Raises ValueError for a call
        that does not fit the ABI, and OutboxError where the key stands for another call already (the stored one stays).
        """
        call.encode()
        known = self._store.get(key)
        if known is None:
            self._store.add(key, call, value, deadline_round, beacon)
        elif (known.call, known.value) != (call, value):
            raise OutboxError(
                f"the outbox holds another call as {key!r} already ({known.status}); what was stored first counts"
            )

    def retry(self, key: str) -> None:
        """Lets a failed or expired call start again, as if it had just been put."""
        known = self._store.get(key)
        if known is None or known.status not in ("failed", "expired"):
            raise OutboxError(f"{key!r} neither failed nor expired, so there is nothing to try again")
        if known.nonce is not None and not known.confirmed:
            raise OutboxError(f"the transaction of {key!r} is not {self.confirmations} blocks deep yet; try again then")
        self._store.restart(known)

    def state(self, key: str) -> TxState:
        """What the last `pump` knew. Asks the disk only."""
        found = self._store.get(key)
        if found is None:
            return TxState("none")
        return TxState(cast(Status, found.status), found.reason, found.hash, found.block, found.confirmed)

    def keys(self, prefix: str) -> list[str]:
        """The keys that begin so, in the order in which they were put. Asks the disk only."""
        return self._store.keys(prefix)

    def call_of(self, key: str) -> Call | None:
        """The stored call."""
        return found.call if (found := self._store.get(key)) else None

    def compact(self, rounds: int, current: int) -> bool:
        """Forgets what was settled more than `rounds` rounds before round `current` and is never asked for again
        (history.py). Whether there is more to forget than one pass does."""
        chain = self.reader.deployment
        return self._store.compact(current, rounds, chain.first_block, chain.spec.chain.round_blocks)

    def hashes_of(self, key: str) -> list[bytes]:
        """Of every transaction that was signed for a call; most of them are not mined. Asks the disk only."""
        found = self._store.get(key)
        return [] if found is None else [attempt.hash for attempt in self._store.attempts([found])[found.id]]

    def signed(self, low: int) -> list[tuple[int, bytes, int]]:
        """Nonce, hash, and the latest block at that time, of all that was ever signed with nonce `low` or above."""
        return self._store.signed(low)

    def pending(self) -> list[str]:
        """The keys that are not settled, in the order in which they were put."""
        open_ = self._store.intents() + self._store.in_flight()
        return [entry.key for entry in sorted(open_, key=lambda entry: entry.id) if entry.call is not None]

    def wait(self, key: str, *, seconds: float) -> TxState:
        """Pumps until the call is settled or the time is over; for commands, not for a node's loop."""
        deadline = time.monotonic() + seconds
        while True:
            self.pump()
            state = self.state(key)
            if state.status not in ("intent", "sent") or time.monotonic() >= deadline:
                return state
            time.sleep(POLL_SECONDS)

    def pump(self) -> None:
        """Moves everything on as far as it goes now. Bounded, and does not sleep.

        Raises ChainUnavailable where the RPC fails (nothing is lost; call again) and ChainReset where the chain was
        replaced by another one.
        """
        self.reader.check_not_reset()
        with rpc.transport(self.reader.rpc_url):
            self._pump()
