"""Who is about to be caught, and proves itself false with another batch, so that those who accepted go free."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sapo_client.batches.publish import Batch
from sapo_client.node.compose import Makers
from sapo_client.transactions.turns import put_once
from sapo_devnet.adversaries.adversary import PATIENCE_SECONDS, Accomplice, HostileBatches
from sapo_devnet.adversaries.content import Forger
from sapo_verifier.audit import Audit
from sapo_verifier.facts import BatchFacts
from sapo_verifier.proofs import Proof, find_proof


@dataclass
class SlashingItself(Accomplice):
    """In the round of its second false batch, as soon as that is mined."""

    own_proof: Callable[[int], Proof | None]  # of a round's batch, once it is on chain and not the first

    def denounce(self, current: int) -> None:
        outbox = self.actor.outbox
        deadline = time.monotonic() + PATIENCE_SECONDS
        while outbox.pending() and self.actor.reader.batch_of(self.actor.node, current) is None:
            if time.monotonic() > deadline:
                return
            outbox.pump()
            time.sleep(0.1)
        proof = self.own_proof(current)
        if proof is not None:
            put_once(outbox, f"itself/{current}", proof.call)


class SelfSlasher(Forger):
    """False batches that anybody can prove, which friends accept (friends.Friend). Before the first is proven, it has
    its bond slashed for the second, by its own hand: the prover's tenth stays in the family, and the first batch is
    void, so that no accept of it would have been wrong."""

    def __init__(self) -> None:
        self._proofs: dict[int, Callable[[], Proof | None]] = {}

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        batch = super().make(own, facts)
        if batch is not None:
            self._proofs[facts.round] = partial(_proof_of, own, batch)
        return batch

    def own_proof(self, round_: int) -> Proof | None:
        is_another = round_ in self._proofs and min(self._proofs) < round_
        return self._proofs[round_]() if is_another else None

    def makers(self) -> Makers:
        return replace(super().makers(), duties=partial(SlashingItself, own_proof=self.own_proof))


def _proof_of(own: HostileBatches, batch: Batch) -> Proof | None:
    index = own.reader.batch_of(own.node, batch.facts.round)
    if index is None:
        return None
    facts = BatchFacts.of(own.reader.deployment, own.reader.batch_at(index), batch.facts.beacon)
    return find_proof(Audit(facts, own.spec, batch.blocks, own.worker, lambda _: own.policy.tokenizer))
