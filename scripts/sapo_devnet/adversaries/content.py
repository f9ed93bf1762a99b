"""False batches: what is published is not what the beacon forced."""

import random
from dataclasses import replace

from sapo_client.batches.publish import Batch
from sapo_client.generation.records import RecordStats
from sapo_client.generation.torch_engine import TorchEngine
from sapo_devnet.adversaries.adversary import Adversary, HostileBatches
from sapo_devnet.adversaries.draft import FULL, Draft, around, manifest_of
from sapo_verifier import protocol
from sapo_verifier.audit import Dealt, Documents, fetch_batch
from sapo_verifier.checks import batch_root
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.objects import Record
from sapo_verifier.tasks import compact_answer

N = 8  # of best-of-N


class Falsified(Adversary):
    """Makes an honest batch and changes it."""

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        honest = super().make(own, facts)
        assert honest is not None
        draft = Draft.of(own.spec, honest)
        self.falsify(draft, own)
        return draft.seal()

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        raise NotImplementedError


class Solver(Falsified):
    """Pastes the right answers, with intervals as wide as the policy's and around u, and claims every reward."""

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        for slot, task in enumerate(draft.batch.dealt.tasks):
            ids = own.policy.encoder.external(f"<{compact_answer(task)}>")
            if ids is None or len(ids) >= own.spec.max_new_tokens:
                continue
            tokens = [*ids, own.policy.base.eos[0]]
            intervals = draft.intervals(slot, tokens, own.policy)
            for k in range(own.spec.group_size):
                us = draft.us(slot, k, len(tokens))
                records = [Record(t, *around(u, *i)) for t, u, i in zip(tokens, us, intervals, strict=True)]
                draft.replace(slot, k, records, own.policy)
        draft.rescore(own.worker)


class Forger(Falsified):
    """Exchanges one token for another, and states the policy's true interval for it: u is not in it."""

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        records = draft.records[0][0]
        tokens = [record.token for record in records]
        others = set(range(own.policy.base.vocab)) - set(own.policy.base.eos) - {tokens[0]}
        tokens[0] = random.Random(draft.batch.facts.beacon).choice(sorted(others))
        intervals = draft.intervals(0, tokens, own.policy)
        draft.replace(0, 0, [Record(t, *i) for t, i in zip(tokens, intervals, strict=True)], own.policy)
        draft.rescore(own.worker)


class FalseReward(Falsified):
    """Claims one reward that was not earned."""

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        if False in draft.bits:
            draft.bits[draft.bits.index(False)] = True


class JunkClaimer(Falsified):
    """Honest records, and a claim of every reward. Two friends' accepts make it count (voters.Friend)."""

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        draft.bits = [True] * len(draft.bits)


class MadeUpIntervals(Falsified):
    """Says that every token was certain."""

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        for slot in draft.records:
            for k, records in enumerate(slot):
                slot[k] = [Record(record.token, 0, FULL - 1) for record in records]


class OneMadeUp(Falsified):
    """Says so of the tokens of one completion: most voters with few spots look elsewhere."""

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        draft.records[0][0] = [Record(record.token, 0, FULL - 1) for record in draft.records[0][0]]


class EarlyStop(Falsified):
    """Cuts a completion short, as if it had ended there."""

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        k = max(range(own.spec.group_size), key=lambda k: len(draft.records[0][k]))
        draft.replace(0, k, draft.records[0][k][:1], own.policy)
        draft.rescore(own.worker)


class Filler(Falsified):
    """Goes on after the end of sequence."""

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        eos = own.policy.base.eos[0]
        limit = own.spec.max_new_tokens
        for slot, completions in enumerate(draft.records):
            for k, records in enumerate(completions):
                if len(records) < limit and records[-1].token == eos:
                    u = draft.us(slot, k, limit)[len(records)]
                    draft.replace(slot, k, [*records, Record(0, u, u)], own.policy)
                    draft.rescore(own.worker)
                    return


class BestOfN(Adversary):
    """Samples N times with numbers of its own, keeps the best, and moves the intervals to the numbers that count."""

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        best: Draft | None = None
        for n in range(N):
            draft = _sampled_with(own, facts, protocol.H("another", facts.beacon, n))
            if best is None or sum(draft.bits) > sum(best.bits):
                best = draft
        assert best is not None
        for slot, completions in enumerate(best.records):
            for k, records in enumerate(completions):
                us = best.us(slot, k, len(records))
                completions[k] = [Record(r.token, *around(u, r.lo, r.last)) for r, u in zip(records, us, strict=True)]
        return best.seal()


def _sampled_with(own: HostileBatches, facts: BatchFacts, stream: bytes) -> Draft:
    """The dealt tasks, completed with the numbers of another stream."""
    honest = Draft.of(own.spec, own.honest(facts))
    prompts = [own.policy.tokenizer.prompt(group.prompt) for group in honest.groups]
    size = own.spec.group_size
    places = [(slot, k) for slot in range(facts.slots) for k in range(size)]
    keys = [protocol.stream_key(stream, facts.policy, facts.node, slot, k) for slot, k in places]
    engine = TorchEngine(own.policy, own.spec.max_new_tokens)
    tokens = engine.generate([prompt for prompt in prompts for _ in range(size)], [[] for _ in keys], keys)
    for (slot, k), completion in zip(places, tokens, strict=True):
        intervals = honest.intervals(slot, completion, own.policy)
        honest.replace(slot, k, [Record(t, *j) for t, j in zip(completion, intervals, strict=True)], own.policy)
    honest.rescore(own.worker)
    return honest


class WrongRoot(Adversary):
    """The root on chain is of nothing."""

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        batch = own.honest(facts)
        at = batch.facts
        return replace(batch, facts=at.made(at.manifest, block_digest(at.root), at.claim))


class SchemaBomber(Adversary):
    """A group block that is deep, long, and no group."""

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        batch = own.honest(facts)
        deep = b"[" * 500_000 + b"]" * 500_000
        bombs = [b'{"v":2,"slot":%d,"x":' % slot + deep + b"}" for slot in range(facts.slots)]
        blocks = {block_digest(bomb): bomb for bomb in bombs}
        manifest = manifest_of(facts, list(blocks))
        blocks[block_digest(manifest)] = manifest
        claim = (1 << facts.slots * own.spec.group_size) - 1
        return replace(batch, facts=facts.made(block_digest(manifest), batch.facts.root, claim), blocks=blocks)


class Replayer(Adversary):
    """Its last batch again, under the new round's manifest."""

    _last: Batch | None = None
    _groups: list[bytes]

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        if self._last is None or len(self._groups) != facts.slots:
            self._last = own.honest(facts)
            self._groups = Documents(self._last.facts, own.spec, self._last.blocks).manifest.groups
            return self._last
        manifest, last = manifest_of(facts, self._groups), self._last
        blocks = {**last.blocks, block_digest(manifest): manifest}
        return replace(last, facts=facts.made(block_digest(manifest), last.facts.root, last.facts.claim), blocks=blocks)


class Copier(Adversary):
    """Another node's batch of the same round, under a manifest of its own."""

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        return own.wait_for(lambda: self._copy(own, facts))

    def _copy(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        reader = own.reader
        victims = [b for b in reader.batches_of(facts.round) if b.node != facts.node and b.slots == facts.slots]
        for victim in sorted(victims, key=lambda b: -b.claim.bit_count()):
            copied = BatchFacts.of(reader.deployment, victim, facts.beacon)
            found = fetch_batch(own.blocks.store, own.spec, copied, [reader.node_of(victim.node).endpoint])
            whole = all(isinstance(block, bytes) for block in found.values())
            if not whole:
                continue
            documents = Documents(copied, own.spec, found)
            groups = list(documents.manifest.groups)
            wanted = {*groups, *(group.records for group in documents.groups)}
            blocks = {digest: documents.bytes_of(digest) for digest in wanted}
            if batch_root([packed for slot in documents.records for packed in slot]) != victim.root:
                continue
            manifest = manifest_of(facts, groups)
            blocks[block_digest(manifest)] = manifest
            made = facts.made(block_digest(manifest), victim.root, victim.claim)
            return Batch(made, blocks, Dealt([], []), RecordStats(0, 0, 0))
        return None
