"""Honest batches, false votes."""

from collections.abc import Sequence

from sapo_client.duties.ballots import Deal
from sapo_client.state.report import RoundReport
from sapo_client.training.sapo import Group
from sapo_devnet.adversaries.node import Accomplice, HostileNode
from sapo_verifier.chain.audits import BatchState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import BatchInfo
from sapo_verifier.checks import Verdict
from sapo_verifier.schedule import DISPUTE_AFTER


class UnseenVoting(Accomplice):
    """The same verdict about everything, and nothing is fetched."""

    always = Verdict.ACCEPT

    def _judge(self, deal: Deal, window: Sequence[BatchInfo], judged: Sequence[BatchInfo]) -> None:
        verdicts = {batch.index: self.always for batch in judged}
        self._fill_in(deal, window, verdicts, {index: [] for index in verdicts})
        self._send(deal)


class LyingVoting(UnseenVoting):
    always = Verdict.REJECT


class SilentVoting(Accomplice):
    def _reveal(self, current: int, stage: int) -> None:
        pass


class FrivolousVoting(Accomplice):
    def _denounce(self, current: int) -> None:
        judged = current - DISPUTE_AFTER
        for batch in self.pool.window(judged, 1) if judged >= 0 else []:
            if self.audits.outcome_of(batch.index).state is BatchState.STANDING:
                call = Call("audits", "dispute", (batch.index,))
                bond = self.audits.terms().dispute_bond
                self._once(f"dispute/{judged}/{batch.index}", call, value=bond, deadline=current)


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
