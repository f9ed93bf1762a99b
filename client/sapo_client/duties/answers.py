"""Whether what a voter answered in stage 1 is right (docs/protocol.md, Answers).

All answers of a ballot are false if there is not one for each spot, or if the salt that drew the spots is not the one
that the voter's own policy vouches for; those about one batch, if its declared policy, run here on those spots, says
so. What cannot be fetched says nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eth_hash.auto import keccak

from sapo_client.batches.auditing import Asked, Auditor
from sapo_client.batches.pool import Pool
from sapo_client.duties.testimony import Testimony
from sapo_verifier.audit import CheckResult
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.votes import Revealed
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.errors import ObjectError
from sapo_verifier.objects import PolicyManifest
from sapo_verifier.schedule import COMMIT_AFTER, KEEP_AFTER
from sapo_verifier.spots import Spots

CHECK = "answers"
MANIFEST_SECONDS = 5.0  # to fetch one from each of those who may have it


class Question(NamedTuple):
    """What a ballot answered about a batch that it accepts. first: nodes that may have its blocks, before others."""

    ballot: Revealed
    about: int
    first: Sequence[str] = ()


@dataclass(frozen=True)
class Answers:
    """As one node judges them."""

    auditor: Auditor
    pool: Pool

    def are_counted(self, testimony: Testimony, ballot: Revealed) -> bool:
        """Whether there is one answer for each spot of what the ballot accepts."""
        return self._given(testimony, ballot) is not None

    def why_false(self, testimony: Testimony, ballot: Revealed, nodes: Sequence[str] = ()) -> tuple[str, bool]:
        """Why all answers of a ballot are false, in words, or nothing; and whether that could be told.

        nodes: who is asked for the manifest of its voter's policy, where it is not here.
        """
        if not self.are_counted(testimony, ballot):
            return f"its answers take {len(ballot.answers)} bytes, which are not 4 for each of its spots", True
        if ballot.own is None:
            return "", False
        digest = testimony.batches[ballot.own].policy
        wants, peers = [(digest, BLOCK_LIMIT)], self.auditor.endpoints_of(nodes)
        seconds = MANIFEST_SECONDS * (len(peers) + 1)
        block = self.auditor.store.get_many(wants, peers, deadline=seconds)[digest]
        if not isinstance(block, bytes):
            return "", False
        self.auditor.pins.keep([digest], testimony.round + KEEP_AFTER)
        try:
            audit = PolicyManifest.parse(block).audit
        except ObjectError as error:
            return f"its policy vouches for no salt: {error}", True
        return ("" if audit == keccak(ballot.salt) else "its salt is not the one that its policy vouches for"), True

    def judge(self, testimony: Testimony, questions: Sequence[Question]) -> list[CheckResult]:
        """The check `answers` of each, in order: void where something that it takes is not to be had."""
        found: dict[int, CheckResult] = {}
        asked: dict[int, Asked] = {}
        for number, (ballot, about, first) in enumerate(questions):
            own = [] if ballot.own is None else testimony.holders(ballot.own)
            words, told = self.why_false(testimony, ballot, [ballot.voter, *first, *own])
            if words:
                found[number] = CheckResult(CHECK, "fail", _words(about, words))
                continue
            if not told:
                words = "the manifest of its policy, which vouches for its salt, is not to be had"
                found[number] = CheckResult(CHECK, "void", _words(about, words))
            asked[number] = self.asked(testimony, ballot, about, first)
        for number, result in zip(asked, self.pool.judge(list(asked.values())), strict=True):
            said = _about(questions[number].about, result)
            found[number] = said if said.status == "fail" else found.get(number, said)
        return [found[number] for number in range(len(questions))]

    def asked(self, testimony: Testimony, ballot: Revealed, about: int, first: Sequence[str] = ()) -> Asked:
        """What is asked of the declared policy, and of whom the batch is: author, voter, `first`, others that looked.

        Of a ballot with one answer for each spot. Raises ChainUnavailable.
        """
        given, batch, reader = self._given(testimony, ballot), testimony.batches[about], self.auditor.reader
        assert given is not None
        beacon = reader.beacon(testimony.round + COMMIT_AFTER[1])
        if beacon is None:
            raise ChainUnavailable(
                f"{reader.where} gives no beacon of round {testimony.round + 1}, in which verdicts were committed; "
                "try again"
            )
        spec = self.auditor.spec
        spots = Spots.of(beacon, ballot.salt, about, batch.slots * spec.group_size, spec.spot)
        nodes = [batch.node, ballot.voter, *first, *testimony.holders(about)]
        peers = self.auditor.endpoints_of([node for node in nodes if node != self.auditor.voter])
        return Asked(batch, spots, given[about], peers)

    def _given(self, testimony: Testimony, ballot: Revealed) -> dict[int, list[int]] | None:
        spec = self.auditor.spec
        completions = {index: testimony.batches[index].slots * spec.group_size for index in ballot.accepted}
        return ballot.answers_about({index: min(spec.spot, n) for index, n in completions.items()})


def _words(about: int, words: str) -> str:
    return f"about batch {about}: {words}"


def _about(about: int, result: CheckResult) -> CheckResult:
    """Named for the report, whose batch is the voter's own."""
    return CheckResult(CHECK, result.status, _words(about, result.reason), result.slot, result.k, result.t)
