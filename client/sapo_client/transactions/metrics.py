"""What is watched of the outbox, read beside the process that owns it; and what its transactions cost."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sapo_client.state.sqlite import beside
from sapo_verifier.chain import rpc
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.metric import Metric, Value

STATES = ("intent", "sent", "mined", "failed", "expired")
MOST_RECEIPTS = 100  # of one look
LOOK_BACK = 10_000  # blocks, within which a transaction that was mined may be written down
COIN = 10**18

Counted = Mapping[str, int]  # transactions by state

OUTBOX: tuple[Metric[Counted], ...] = (
    Metric("sapo_transactions", "Transactions in the outbox.", lambda by: {s: by.get(s, 0) for s in STATES}, "state"),
    Metric(
        "sapo_outbox_depth", "Transactions that are not mined yet.", lambda by: by.get("intent", 0) + by.get("sent", 0)
    ),
)


@dataclass
class Spending:
    """What mined transactions of an outbox cost, those that were mined before it was opened not counted."""

    path: Path
    gas: int = 0
    fees: int | None = 0  # wei; None: the RPC does not tell
    _seen: dict[bytes, int] = field(default_factory=dict)  # the block of each

    def __post_init__(self) -> None:
        self._seen = self._mined(0)

    def look(self, reader: ChainReader) -> None:
        """Asks for the receipts of what was mined since. Raises ChainError; the next look asks again."""
        since = max(self._seen.values(), default=0) - LOOK_BACK
        new = [(hash_, block) for hash_, block in self._mined(since).items() if hash_ not in self._seen][:MOST_RECEIPTS]
        if not new:
            return
        with rpc.transport(reader.rpc_url):
            receipts = rpc.batch(reader.w3, [("eth_getTransactionReceipt", ["0x" + hash_.hex()]) for hash_, _ in new])
        for (hash_, block), receipt in zip(new, receipts, strict=True):
            if receipt is None:  # a reorganization, or an RPC that lags
                continue
            self._seen[hash_] = block
            used = int(receipt["gasUsed"], 16)
            self.gas += used
            price = receipt.get("effectiveGasPrice")
            self.fees = None if price is None or self.fees is None else self.fees + used * int(price, 16)
        self._seen = {hash_: block for hash_, block in self._seen.items() if block >= since}

    def _mined(self, since: int) -> dict[bytes, int]:
        """Block by hash; {} where there is no outbox yet."""
        if not self.path.exists():
            return {}
        question = "SELECT hash, block FROM entry WHERE hash IS NOT NULL AND block >= ? ORDER BY block"
        try:
            with beside(self.path) as db:
                return {bytes(hash_): int(block) for hash_, block in db.execute(question, (since,))}
        except sqlite3.Error:  # busy, or not made yet: the next look reads it
            return dict(self._seen)


def _fees(spent: Spending) -> Value:
    return None if spent.fees is None else spent.fees / COIN


SPENT: tuple[Metric[Spending], ...] = (
    Metric("sapo_gas_used_total", "Gas of mined transactions, since the node started.", lambda spent: spent.gas),
    Metric("sapo_fees_coins_total", "Coins paid for that gas.", _fees),
)
