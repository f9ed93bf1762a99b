"""How an outbox's transactions get to the chain: one pass over all that is not settled. It looks receipts up, sends
what the chain lost, replaces what waits for too long, and signs what is new. A node sees the outbox only (outbox.py).
"""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from eth_utils.address import to_checksum_address
from web3.exceptions import ContractLogicError, Web3RPCError

from sapo_client.state.logs import fields
from sapo_client.transactions.belongs import network_of
from sapo_client.transactions.questions import (
    lacking,
    of_other_histories,
    past_deadline,
    succeeded,
    taker_of_nonce,
    why_failed,
)
from sapo_client.transactions.refusals import Refusals
from sapo_client.transactions.store import Attempt, Entry, OutboxStore
from sapo_client.transactions.wire import Wire
from sapo_verifier.chain.errors import explain
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.signing import GWEI, Fees, base_fee, estimate_gas

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

log = logging.getLogger("sapo.outbox")

Status = Literal["none", "intent", "sent", "mined", "failed", "expired"]

MAX_IN_FLIGHT = 16


class Delivery:
    """Of one account's transactions; confirmations and the others: see Outbox."""

    def __init__(
        self,
        path: str | Path,
        reader: ChainReader,
        account: "LocalAccount",
        *,
        confirmations: int = 12,
        fee_cap: int = 500 * GWEI,
        stuck_blocks: int = 5,
        max_replacements: int = 5,
    ) -> None:
        self.reader = reader
        self.address = account.address.lower()
        self.confirmations = confirmations
        self.fee_cap = fee_cap
        self.stuck_blocks = stuck_blocks
        self.max_replacements = max_replacements
        self._wire = Wire(reader, account)
        self._refusals = Refusals()
        self._store = OutboxStore(Path(path), f"account {self.address} on {network_of(reader.deployment)}")

    # -- one pass --

    def _pump(self) -> None:
        eth = self.reader.w3.eth
        head = eth.block_number
        # "latest", not "pending": a nonce above someone's pending transaction would wait for ever if that is dropped.
        used = eth.get_transaction_count(to_checksum_address(self.address), "latest")
        dated = any(e.deadline is not None for e in [*self._store.unconfirmed(), *self._store.intents()])
        round_ = self.reader.current_round() if dated else None
        self._look_receipts_up(head, round_)
        self._fill_gaps(head, used)
        in_flight, intents = self._store.in_flight(), self._store.intents()
        late = past_deadline([*in_flight, *intents], round_)
        unsure = of_other_histories(self.reader, [*in_flight, *intents], late)
        accepted = True
        for entry in in_flight:
            if entry.id not in unsure:
                accepted = self._push(entry, head, used, too_late=entry.id in late) and accepted
        for entry in self._store.intents():
            if entry.id in late:
                self._finish(entry, "expired", late[entry.id])
            elif accepted and entry.id not in unsure:
                # In order: a later call often needs an earlier one (register, then commit).
                accepted = self._start(entry, head, used)

    def _look_receipts_up(self, head: int, round_: int | None) -> None:
        entries = self._store.unconfirmed()
        attempts = self._store.attempts(entries)
        receipts = self._wire.by_hash("eth_getTransactionReceipt", [a for entry in entries for a in attempts[entry.id]])
        for entry in entries:
            # A failed one of an older nonce was signed again, and says nothing any more.
            known = [(a, receipts[a.hash]) for a in attempts[entry.id] if a.hash in receipts]
            counted = [a for a, receipt in known if succeeded(receipt) or a.nonce == entry.nonce]
            mined = max(counted, key=lambda a: succeeded(receipts[a.hash]), default=None)
            if mined is not None:
                self._record_receipt(entry, mined, receipts[mined.hash], head, round_)
            elif entry.status != "sent":
                lags = f", whose latest is {head}" if entry.block is not None and head < entry.block else ""
                reason = f"the chain{lags} does not show its transaction of block {entry.block} any more"
                log.warning("%s: %s", entry.key, reason)
                self._store.update(entry, status="sent", reason=reason, block=None, hash=None)

    def _record_receipt(
        self, entry: Entry, mined: Attempt, receipt: dict[str, Any], head: int, round_: int | None
    ) -> None:
        block = int(receipt["blockNumber"], 16)
        status: Status = "expired" if mined.empty else "mined" if succeeded(receipt) else "failed"
        if (entry.hash, entry.block, entry.status) != (mined.hash, block, status):
            reason = ""
            if mined.empty:
                reason = "it was too late, or for another beacon; an empty transaction took its place"
            elif status == "failed":
                reason, again = why_failed(self.reader.w3, self._wire.request(entry), mined.gas, receipt)
                if again and len(self._store.attempts([entry])[entry.id]) <= self.max_replacements:
                    log.warning("%s: %s; it is signed again", entry.key, reason)
                    self._store.update(entry, status="intent", reason=reason, nonce=None)
                    return
            self._finish(entry, status, reason, nonce=mined.nonce, hash=mined.hash, block=block)
        # However deep: what vanishes while its round lasts, or that has just ended, can and must be mined again.
        lasts = status == "mined" and entry.deadline is not None and round_ is not None and round_ <= entry.deadline + 1
        if head - block + 1 >= self.confirmations and not lasts:
            self._store.update(entry, confirmed=1)

    def _finish(self, entry: Entry, status: Status, reason: str, **columns: Any) -> None:
        level = logging.INFO if status == "mined" else logging.WARNING
        told = fields(key=entry.key, status=status, reason=reason)
        log.log(level, "%s: %s %s", entry.key, status, reason, extra=told)
        self._refusals.forget(entry.id)
        self._store.update(entry, status=status, reason=reason, **columns)

    # -- in flight --

    def _push(self, entry: Entry, head: int, used: int, *, too_late: bool) -> bool:
        """Sees to one signed transaction. False if nothing may be signed after it yet; why is in its state."""
        attempts = [a for a in self._store.attempts([entry])[entry.id] if a.nonce == entry.nonce]
        newest = attempts[-1]
        if newest.nonce < used:
            return self._nonce_is_used(entry, attempts, head)
        known = self._wire.by_hash("eth_getTransactionByHash", attempts)
        cancel = too_late and not newest.empty
        trouble = self._replace(entry, attempts, head, empty=True) if cancel else ""
        if cancel and not trouble:
            return True
        # What the pools lost is sent again whatever else is wrong with it: no later nonce is mined before this one.
        if not known:
            refusal = self._wire.send(newest)
            if not refusal:
                log.info("%s: sent again as 0x%s", entry.key, newest.hash.hex())
                return True
            trouble = trouble or refusal
        # Either it waits for too long, or nodes refuse it, mostly because the fee is too low by now.
        first = all(other.nonce is None or other.nonce >= newest.nonce for other in self._store.in_flight())
        if first and not cancel and head - newest.block >= self.stuck_blocks:
            trouble = self._replace(entry, attempts, head, empty=newest.empty)
            if not trouble:
                return True
        if trouble:
            self._wait(entry, trouble)
        return bool(known) and not trouble

    def _replace(self, entry: Entry, attempts: list[Attempt], head: int, *, empty: bool) -> str:
        """The same nonce with a higher fee, so that at most one of them is mined. Why it has to wait, or nothing."""
        newest = attempts[-1]
        enough = sum(a.empty == empty for a in attempts) > self.max_replacements
        if enough and newest.max_fee >= base_fee(self.reader.w3):  # a higher fee would not change that
            return f"not mined after {self.max_replacements} replacements; waiting"
        fees = Fees(newest.max_fee, newest.tip).raised(Fees.of_market(self.reader.w3, self.fee_cap), self.fee_cap)
        if fees is None:
            return (
                f"not mined with {newest.max_fee / GWEI:g} gwei, and a higher fee would exceed the "
                f"{self._cap_in_words}; waiting until a block asks less"
            )
        log.warning("%s: not mined since block %d; replaced with a higher fee", entry.key, newest.block)
        gas = estimate_gas(self.reader.w3, self._wire.empty_request()) if empty else newest.gas
        return self._send(entry, self._sign(entry, newest.nonce, gas, fees, head, empty=empty))

    @property
    def _cap_in_words(self) -> str:
        return f"cap of {self.fee_cap / GWEI:g} gwei ([chain] fee_cap_gwei)"

    def _nonce_is_used(self, entry: Entry, attempts: list[Attempt], head: int) -> bool:
        """Our nonce is used, and none of our receipts is there. Signed again only if somebody else used it."""
        nonce = attempts[-1].nonce
        taker = taker_of_nonce(self.reader.w3, self.address, nonce, attempts[0].block, head)
        if taker is None or taker.hash in {a.hash for a in attempts}:
            self._wait(entry, "mined, it seems, but the chain's RPC has no receipt yet; waiting")
            return True
        warning = f"nonce {nonce} was used by another transaction, 0x{taker.hash.hex()}, seen in block {taker.block}"
        warning += "; signed again with the next nonce" if entry.call else ""
        log.warning("%s: %s", entry.key, warning)
        if entry.call is None:
            self._store.update(entry, status="expired", reason=warning, confirmed=1)
        else:
            self._store.update(entry, status="intent", reason=warning, nonce=None)
        return True

    def _fill_gaps(self, head: int, used: int) -> None:
        """Empty transactions for nonces below ours that nobody holds: a deep reorganization can leave such holes."""
        held = {entry.nonce for entry in self._store.unconfirmed() if entry.nonce is not None}
        waiting = [entry.nonce for entry in self._store.in_flight() if entry.nonce is not None]
        for nonce in range(used, min(max(waiting, default=used), used + MAX_IN_FLIGHT)):
            if nonce not in held:
                entry = self._store.add(f"empty/{nonce}/{time.time_ns()}", None, 0, None)
                self._send(
                    entry,
                    self._sign(
                        entry,
                        nonce,
                        estimate_gas(self.reader.w3, self._wire.empty_request()),
                        Fees.of_market(self.reader.w3, self.fee_cap),
                        head,
                        empty=True,
                    ),
                )

    # -- new ones --

    def _start(self, entry: Entry, head: int, used: int) -> bool:
        """Signs, stores and sends an intent. False if it has to wait, with the reason in its state."""
        in_flight = self._store.in_flight()
        if len(in_flight) >= MAX_IN_FLIGHT:
            return False
        if entry.value and (lack := self._lacking(entry, 0, in_flight)):
            self._wait(entry, lack)
            return False
        try:
            gas = estimate_gas(self.reader.w3, self._wire.request(entry))
        except ContractLogicError as error:
            if in_flight:
                # It may need what is not mined yet.
                self._wait(entry, f"waits for earlier transactions ({explain(error)})")
                return False
            if not self._refusals.is_final(entry.id, head):
                self._wait(entry, f"the contract would refuse it; asked again ({explain(error)})")
                return False
            self._finish(entry, "failed", explain(error))
            return True
        except Web3RPCError as error:
            self._wait(entry, explain(error))
            return False
        self._refusals.forget(entry.id)
        if (base := base_fee(self.reader.w3)) > self.fee_cap:
            self._wait(entry, f"a block asks {base / GWEI:g} gwei, above the {self._cap_in_words}; waiting")
            return False
        fees = Fees.of_market(self.reader.w3, self.fee_cap)
        if lack := self._lacking(entry, gas * fees.max_fee, in_flight):
            self._wait(entry, lack)
            return False
        taken = [other.nonce + 1 for other in self._store.unconfirmed() if other.nonce is not None]
        return not self._send(entry, self._sign(entry, max([used, *taken]), gas, fees, head, empty=False))

    def _lacking(self, entry: Entry, cost: int, in_flight: Sequence[Entry]) -> str:
        attempts = self._store.attempts(in_flight)
        reserved = sum(other.value + max(a.gas * a.max_fee for a in attempts[other.id]) for other in in_flight)
        return lacking(self.reader, self.address, entry, cost, reserved)

    def _wait(self, entry: Entry, reason: str) -> None:
        if entry.reason != reason:
            log.warning("%s: %s", entry.key, reason)
            self._store.update(entry, reason=reason)

    # -- signing and sending --

    def _sign(self, entry: Entry, nonce: int, gas: int, fees: Fees, head: int, *, empty: bool) -> Attempt:
        """A signed transaction, stored before anybody can see it."""
        request = self._wire.empty_request() if empty else self._wire.request(entry)
        hash_, raw = self._wire.sign(request, nonce, gas, fees)
        attempt = Attempt(hash_, entry.id, nonce, raw, gas, fees.max_fee, fees.tip, empty, head)
        self._store.add_attempt(attempt)
        return attempt

    def _send(self, entry: Entry, attempt: Attempt) -> str:
        """One try. Why the nodes refused it, in words, which are in the entry's state then; empty if they have it."""
        if refusal := self._wire.send(attempt):
            self._wait(entry, refusal)
        else:
            log.info("%s: sent with nonce %d as 0x%s", entry.key, attempt.nonce, attempt.hash.hex())
        return refusal
