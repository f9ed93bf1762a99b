"""Before a node sends anything: whether its key acts without its outbox, as it does where a second node runs."""

import logging
import threading
from dataclasses import dataclass, field

from sapo_client.duties.elsewhere import SecondProgram
from sapo_client.node.patience import Patience
from sapo_client.state.report import StatusFile
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.strangers import Sender, Stranger, listed, nonces_used, recent_strangers, strangers
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.reader import ChainReader, NodeState

log = logging.getLogger(__name__)

LOOK_BACK = 3  # rounds: a node that acts sends something in each
PHASE = "waiting to see whether its key is used elsewhere"


def wait_until_alone(
    reader: ChainReader,
    outbox: Outbox,
    node: str,
    status: StatusFile,
    *,
    poll_seconds: float,
    patience: Patience,
    stop: threading.Event,
) -> None:
    """Returns at once where the outbox knows everything that its account sent in the last rounds, or where the node was
    never registered; else after one round in which the account sent nothing, or once `stop` is set.

    status: the running node's. Raises SecondProgram where it sent something, and ChainUnavailable.
    """
    blocks = reader.deployment.spec.chain.round_blocks
    found = recent_strangers(reader, outbox, LOOK_BACK * blocks)
    if not found:
        return
    if reader.node_of(node).state is NodeState.NONE:
        # Whatever a new node's key sent before, nobody has promised anything with it yet.
        log.info("the key %s was used before its node: %s", outbox.address, listed(found))
        return
    head = reader.block_number()
    quiet = head + min(outbox.confirmations, blocks)
    log.warning(
        "in the last %d rounds the key %s sent what this home's outbox does not know: %s. Another program may use the "
        "key, so this node sends nothing, and watches the key until block %d (this is %d). If you know that nothing "
        "else uses it, as after a backup was restored, start the node with --i-know",
        *(LOOK_BACK, outbox.address, listed(found), quiet + blocks, head),
    )
    pending = nonces_used(reader, outbox.address, "pending") or 0
    watch = Watch(reader, outbox, quiet, quiet + blocks, expected=pending)
    while not stop.is_set():
        wait = poll_seconds
        try:
            # Rounds may go on without this node: a devnet's clock waits for those that are not done.
            round_ = reader.current_round()
            status.update(node=node, phase=PHASE, round=round_, done_round=round_, trouble="")
            if watch.is_over():
                log.warning("nothing else used the key %s meanwhile: the node goes on", outbox.address)
                return
            patience.answered()
            patience.well()
        except SecondProgram as error:
            status.update(phase="stopped", trouble=str(error))
            raise
        except ChainUnavailable as error:
            status.update(trouble=str(error))
            wait = patience.after(error)
        stop.wait(wait)


@dataclass
class Watch:
    """Of an account's nonces from one block to another. remedy: said with what was found.

    expected: so many are used, or will be by what was on its way before. What is mined up to block `first` is of the
    past, too: views lag, and a shallow reorganization has it mined again.
    """

    reader: ChainReader
    outbox: Sender
    first: int
    last: int
    expected: int
    remedy: str = "This node has sent nothing; if you did that by hand, start the node again"
    _seen: int = field(init=False)  # the last block in which no more than the expected ones were used

    def __post_init__(self) -> None:
        self._seen = self.first

    def is_over(self) -> bool:
        """One poll. Raises SecondProgram, and ChainUnavailable."""
        head = self.reader.block_number()
        if head < self.first:
            return False
        used = nonces_used(self.reader, self.outbox.address, head)
        if used is None:  # a provider whose machines disagree about the latest block
            return False
        if self._seen == self.first:
            before = nonces_used(self.reader, self.outbox.address, self.first)
            self.expected = max(self.expected, used if before is None else before)
        if used > self.expected:
            found = strangers(self.reader, self.outbox, self.expected, used, (self._seen, head))
            if any(each.taker for each in found) or (found and head >= self.last):
                raise self._refusal(found, head)
            if found:
                return False
            self.expected = used
        self._seen = head
        return head >= self.last

    def _refusal(self, found: list[Stranger], head: int) -> SecondProgram:
        return SecondProgram(
            f"this node's key ({self.outbox.address})",
            f"up to block {head} it sent what this home's outbox does not know: {listed(found)}. {self.remedy}",
        )
