"""Honest batches, false votes."""

import secrets

from hostile.node import Accomplice, HostileNode
from sapo_client import voting
from sapo_client.ballots import Ballot
from sapo_client.report import RoundReport
from sapo_client.sapo import Group
from sapo_verifier.chain.audits import BatchState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import BatchInfo
from sapo_verifier.checks import Verdict


class UnseenVoting(Accomplice):
    """The same verdict about everything, and nothing is fetched."""

    always = Verdict.ACCEPT

    def _fill_in(self, voted: int, stage: int, window: list[BatchInfo]) -> Ballot | None:
        judged = window if stage == 1 else [b for b in window if self.audits.outcome_of(b.index).in_stage_2]
        if not judged:
            return None
        verdicts = {batch.index: self.always for batch in judged}
        word = sum(verdicts.get(batch.index, 0) << (2 * j) for j, batch in enumerate(window))
        block = voting.report(voted, stage, self.voter, verdicts, {index: [] for index in verdicts})
        return self.ballots.put(Ballot(voted, stage, word, block, secrets.token_bytes(32)))


class LyingVoting(UnseenVoting):
    always = Verdict.REJECT


class SilentVoting(Accomplice):
    def _reveal(self, current: int, stage: int) -> None:
        pass


class FrivolousVoting(Accomplice):
    def _dispute(self, judged: int) -> None:
        for batch in self.pool.window(judged, 1) if judged >= 0 else []:
            if self.audits.outcome_of(batch.index).state is BatchState.STANDING:
                call = Call("audits", "dispute", (batch.index,))
                bond = self.audits.terms().dispute_bond
                self._once(f"dispute/{batch.index}", call, value=bond, deadline=judged + 3)


class Unseeing(HostileNode):
    def _audit(self, round_: int, report: RoundReport) -> list[Group]:
        return []


class Lazy(Unseeing):
    """Accepts everything unseen."""

    voting = UnseenVoting


class Liar(Unseeing):
    """Rejects everything."""

    voting = LyingVoting


class Silent(HostileNode):
    """Commits its verdicts and never reveals them."""

    voting = SilentVoting


class FrivolousDisputer(HostileNode):
    """Disputes every batch that stage 1 accepted."""

    voting = FrivolousVoting
