"""Looking: in r+3 a node recomputes one answer sheet that others revealed, and disputes what is false.

Which one, it draws here: nobody is warned. Who accepted a batch unseen is looked at about once a round, and its own
batch pays (docs/protocol.md, Looking). The salt and the number of answers it checks of every node whose batch it was
dealt, as it holds the policies that vouch for them.
"""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sapo_client.duties.actor import Actor
from sapo_client.duties.answers import Answers
from sapo_client.duties.disputes import Disputes
from sapo_client.duties.testimony import Testimony
from sapo_verifier.chain.votes import Revealed
from sapo_verifier.checks import Verdict
from sapo_verifier.schedule import DISPUTE_AFTER

log = logging.getLogger(__name__)


@dataclass
class Looking:
    """Of one node. It draws again where a round is played again: that only looks at one more."""

    actor: Actor
    answers: Answers
    disputes: Disputes

    def look(self, current: int) -> None:
        """Of a node that runs policies; another one cannot tell."""
        judged, auditor = current - DISPUTE_AFTER, self.answers.auditor
        window = auditor.window(judged, 1) if judged >= 0 and auditor.model is not None else []
        if not window:
            return
        dealt = {batch.index: batch.node for batch in window}
        testimony = Testimony.read(self.actor.reader, self.actor.node, judged, dealt, dealt.values())
        false = self._false_ballots(testimony, [batch.node for batch in window])
        pairs = [
            (ballot, index)
            for ballot in testimony.others()
            for index in dealt
            if ballot.voter not in false and ballot.own is not None and ballot.verdict(index) == Verdict.ACCEPT
        ]
        if pairs:
            self._recompute(testimony, *self.draw(pairs))

    def draw(self, pairs: Sequence[tuple[Revealed, int]]) -> tuple[Revealed, int]:
        """Which ballot is looked at, and about which batch."""
        return secrets.choice(pairs)

    def _false_ballots(self, testimony: Testimony, nodes: Sequence[str]) -> set[str]:
        """Those of `nodes` whose answers are all false, which takes no model; disputed about the first of them, as all
        see who were dealt their batches."""
        false = set()
        for ballot in (testimony.ballots[node] for node in nodes if node in testimony.ballots):
            words, _ = self.answers.why_false(testimony, ballot) if ballot.accepted else ("", True)
            if words:
                false.add(ballot.voter)
                self._dispute(testimony, ballot, ballot.accepted[0], words)
        return false

    def _recompute(self, testimony: Testimony, ballot: Revealed, about: int) -> None:
        if not self.answers.are_counted(testimony, ballot):
            self._dispute(testimony, ballot, about, "there is not one answer for each spot")
            return
        (found,) = self.answers.pool.judge([self.answers.asked(testimony, ballot, about)])
        log.info("looked at what %s answered about batch %d: %s", ballot.voter, about, found.status)
        if found.status == "fail":
            self._dispute(testimony, ballot, about, found.reason)

    def _dispute(self, testimony: Testimony, ballot: Revealed, about: int, words: str) -> None:
        assert ballot.own is not None
        log.warning(
            "batch %d of %s is to be disputed: what it said of batch %d is false: %s",
            *(ballot.own, ballot.voter, about, words),
        )
        self.disputes.offer_about(testimony.batches[ballot.own], about)
