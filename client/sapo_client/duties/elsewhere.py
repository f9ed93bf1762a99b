"""One node per key: whether another program acts with this node's key, and what is said and done about it.

A view that lags, or a shallow reorganization, looks much the same for a while. So it is said that a second program uses
the key only of what is as deep in the chain as the outbox needs it to call its own transactions settled.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sapo_client.duties.acts import acts_of, is_deep, not_ours
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.strangers import listed, nonces_used, strangers
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError
from sapo_verifier.chain.reader import ChainReader, NodeInfo, NodeState
from sapo_verifier.errors import UnableError

log = logging.getLogger(__name__)

REMEDY = (
    "Stop the other one, and see to it that it is not started again: two nodes with one key spoil each other's rounds "
    "and lose its bond. Then start this one anew (docs/operators.md, One node per key)"
)


class SecondProgram(UnableError):  # noqa: N818
    """Another program acts with the node's key, or with its owner's."""

    def __init__(self, whose: str, proof: str) -> None:
        super().__init__(f"a second program uses {whose}: {proof}. {REMEDY}")


@dataclass
class KeyWatch:
    """Of one running node, looked at once a round. endpoint: the node's own. say(words): to the operator, once.

    What was done before this run is of no interest: an outbox that was lost, or comes from a backup, does not know it.
    """

    reader: ChainReader
    outbox: Outbox
    node: str
    endpoint: str
    say: Callable[[str], None]
    _began: int | None = None  # this run's first round
    _nonces: int = 0  # up to here they were looked at
    _block: int = 0  # the one in which that was so
    _repair: str | None = None  # of the endpoint, in the outbox

    def look(self, current: int, info: NodeInfo) -> str:
        """What was seen and is not proven yet, in words; empty if nothing.

        info: of the node, just read. Puts the endpoint right, once. Nothing else is sent because of what is seen, and
        nothing twice: the contracts keep what they took first. Raises SecondProgram, and ChainUnavailable.
        """
        if self._began is None:
            self._began = current
        head = self.reader.block_number()
        deep = max(0, head - self.outbox.confirmations + 1)
        self._look_at_endpoint(info, deep)
        self._look_at_nonces(current, head, deep)
        found = not_ours(self.reader, self.outbox, list(acts_of(self.node, current, self._began)))
        if proven := [act.words for act in found if is_deep(self.reader, act, deep)]:
            raise self._proven(_all(proven) + " did not come from this node's outbox")
        if not found:
            return ""
        words = (
            f"{_all([act.words for act in found])} did not come from this node's outbox, as the chain is now; "
            f"that is not {self.outbox.confirmations} blocks deep yet"
        )
        self.say(words)
        return words

    def _look_at_nonces(self, current: int, head: int, deep: int) -> None:
        """What was sent by hand with the key is only said, also where it took a nonce from the outbox, which then signs
        again: a second node shows by what it promises and publishes."""
        if self._began is None or current <= self._began + 1:
            # What an earlier run or a lost outbox had on its way may still be mined in this run's first round.
            self._nonces, self._block = nonces_used(self.reader, self.outbox.address, head) or 0, head
            return
        used = nonces_used(self.reader, self.outbox.address, deep)
        if used is None or used <= self._nonces:
            return
        found = strangers(self.reader, self.outbox, self._nonces, used, (self._block, deep))
        self._nonces, self._block = used, deep
        if found:
            self.say(
                f"the key {self.outbox.address} sent what this node's outbox does not know: {listed(found)}. If it was "
                "not you, find out who has the key; if it was, stop the node before you use its key"
            )

    def _look_at_endpoint(self, info: NodeInfo, deep: int) -> None:
        if info.endpoint == self.endpoint or info.state not in (NodeState.REGISTERED, NodeState.EXITING):
            return
        if self.node != self.outbox.address:
            self.say(f"peers look for this node at {info.endpoint}; only the owner can change that to {self.endpoint}")
            return
        ours = [self.outbox.state(key) for prefix in ("endpoint/", "register/") for key in self.outbox.keys(prefix)]
        if any(state.status in ("intent", "sent", "mined") and not state.confirmed for state in ours):
            return  # what is seen may be older than that
        try:
            held = self.reader.call(Call("nodes", "nodeOf", (self.node,)), block=deep)[-1]
        except ChainError:  # no state of that block, so nothing is known for certain
            return
        if held == self.endpoint:
            return
        if self._repair is None:
            self.say(f"the endpoint on chain became {held} while this node ran: set back to {self.endpoint}, once")
            self._repair = f"endpoint/{self.reader.block_number()}"
            self.outbox.put(self._repair, Call("nodes", "setEndpoint", (self.endpoint,)))
        elif self.outbox.state(self._repair).status == "mined":
            raise self._proven(f"the endpoint on chain became {held}, after this node had set it back once before")

    def _proven(self, proof: str) -> SecondProgram:
        key = f"this node's key ({self.node})"
        if self.node != self.outbox.address:
            key = f"the key of this node's owner ({self.node}) or of its operator ({self.outbox.address})"
        return SecondProgram(key, proof)


def _all(acts: Sequence[str]) -> str:
    return acts[0] if len(acts) == 1 else f"{', '.join(acts[:-1])} and {acts[-1]}"
