"""False batches: what is published is not what the beacon forced."""

import random

from sapo_client.batches.publish import Batch, Dealt, make_batch
from sapo_client.generation.records import RecordStats
from sapo_devnet.adversaries.draft import FULL, Draft, around, manifest_of
from sapo_devnet.adversaries.node import HostileBatches, HostileNode
from sapo_verifier import protocol
from sapo_verifier.audit import Documents, facts_of, fetch_batch
from sapo_verifier.checks import batch_root
from sapo_verifier.cid import block_digest
from sapo_verifier.objects import Record
from sapo_verifier.tasks import compact_answer

N = 8  # of best-of-N


class Falsified(HostileNode):
    """Makes an honest batch and changes it."""

    def make(self, own: HostileBatches, dealt: Dealt) -> Batch | None:
        draft = Draft.of(own.spec, dealt, own.honest(dealt))
        self.falsify(draft, own)
        return draft.seal()

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        raise NotImplementedError


class Solver(Falsified):
    """Pastes the right answers, with intervals as wide as the policy's and around u, and claims every reward."""

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        for slot, task in enumerate(draft.tasks(own.worker)):
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
        tokens[0] = random.Random(draft.dealt.beacon).choice(sorted(others))
        intervals = draft.intervals(0, tokens, own.policy)
        draft.replace(0, 0, [Record(t, *i) for t, i in zip(tokens, intervals, strict=True)], own.policy)
        draft.rescore(own.worker)


class FalseReward(Falsified):
    """Claims one reward that was not earned."""

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        if False in draft.bits:
            draft.bits[draft.bits.index(False)] = True


class MadeUpIntervals(Falsified):
    """Says that every token was certain."""

    def falsify(self, draft: Draft, own: HostileBatches) -> None:
        for slot in draft.records:
            for k, records in enumerate(slot):
                slot[k] = [Record(record.token, 0, FULL - 1) for record in records]


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


class BestOfN(HostileNode):
    """Samples N times with numbers of its own, keeps the best, and moves the intervals to the numbers that count."""

    def make(self, own: HostileBatches, dealt: Dealt) -> Batch | None:
        best: Draft | None = None
        for n in range(N):
            draft = _sampled_with(own, dealt, protocol.H("another", dealt.beacon, n))
            if best is None or sum(draft.bits) > sum(best.bits):
                best = draft
        assert best is not None
        for slot, completions in enumerate(best.records):
            for k, records in enumerate(completions):
                us = best.us(slot, k, len(records))
                completions[k] = [Record(r.token, *around(u, r.lo, r.last)) for r, u in zip(records, us, strict=True)]
        return best.seal()


def _sampled_with(own: HostileBatches, dealt: Dealt, stream: bytes) -> Draft:
    """The dealt tasks, completed with the numbers of another stream."""
    honest = Draft.of(own.spec, dealt, make_batch(own.spec, dealt, own.policy, own.worker))
    prompts = [own.policy.tokenizer.prompt(group.prompt) for group in honest.groups]
    size = own.spec.group_size
    places = [(slot, k) for slot in range(dealt.slots) for k in range(size)]
    keys = [protocol.stream_key(stream, dealt.policy, dealt.node, slot, k) for slot, k in places]
    engine = own.policy.engine(own.spec.max_new_tokens)
    tokens = engine.generate([prompt for prompt in prompts for _ in range(size)], [[] for _ in keys], keys)
    for (slot, k), completion in zip(places, tokens, strict=True):
        intervals = honest.intervals(slot, completion, own.policy)
        honest.replace(slot, k, [Record(t, *j) for t, j in zip(completion, intervals, strict=True)], own.policy)
    honest.rescore(own.worker)
    return honest


class WrongRoot(HostileNode):
    """The root on chain is of nothing."""

    def make(self, own: HostileBatches, dealt: Dealt) -> Batch | None:
        batch = own.honest(dealt)
        return Batch(batch.manifest, block_digest(batch.root), batch.claim, batch.blocks, batch.stats)


class SchemaBomber(HostileNode):
    """A group block that is deep, long, and no group."""

    def make(self, own: HostileBatches, dealt: Dealt) -> Batch | None:
        batch = own.honest(dealt)
        deep = b"[" * 500_000 + b"]" * 500_000
        bombs = [b'{"v":1,"slot":%d,"x":' % slot + deep + b"}" for slot in range(dealt.slots)]
        blocks = {block_digest(bomb): bomb for bomb in bombs}
        manifest = manifest_of(dealt, list(blocks))
        blocks[block_digest(manifest)] = manifest
        claim = (1 << dealt.slots * own.spec.group_size) - 1
        return Batch(block_digest(manifest), batch.root, claim, blocks, batch.stats)


class Replayer(HostileNode):
    """Its last batch again, under the new round's manifest."""

    _last: Batch | None = None
    _groups: list[bytes]

    def make(self, own: HostileBatches, dealt: Dealt) -> Batch | None:
        if self._last is None or len(self._groups) != dealt.slots:
            self._last = own.honest(dealt)
            facts = dealt.facts(self._last.manifest, self._last.root, self._last.claim)
            self._groups = Documents(facts, own.spec, self._last.blocks).manifest.groups
            return self._last
        manifest = manifest_of(dealt, self._groups)
        blocks = {**self._last.blocks, block_digest(manifest): manifest}
        return Batch(block_digest(manifest), self._last.root, self._last.claim, blocks, self._last.stats)


class Copier(HostileNode):
    """Another node's batch of the same round, under a manifest of its own."""

    def make(self, own: HostileBatches, dealt: Dealt) -> Batch | None:
        return own.wait_for(lambda: self._copy(own, dealt))

    def _copy(self, own: HostileBatches, dealt: Dealt) -> Batch | None:
        reader = own.reader
        victims = [b for b in reader.batches_of(dealt.round) if b.node != dealt.node and b.slots == dealt.slots]
        for victim in sorted(victims, key=lambda b: -b.claim.bit_count()):
            facts = facts_of(reader.deployment, victim, dealt.beacon)
            found = fetch_batch(own.store, own.spec, facts, [reader.node_of(victim.node).endpoint])
            whole = all(isinstance(block, bytes) for block in found.values())
            if not whole:
                continue
            documents = Documents(facts, own.spec, found)
            groups = list(documents.manifest.groups)
            wanted = {*groups, *(group.records for group in documents.groups)}
            blocks = {digest: documents.bytes_of(digest) for digest in wanted}
            if batch_root([packed for slot in documents.records for packed in slot]) != victim.root:
                continue
            manifest = manifest_of(dealt, groups)
            blocks[block_digest(manifest)] = manifest
            return Batch(block_digest(manifest), victim.root, victim.claim, blocks, RecordStats(0, 0, 0))
        return None
