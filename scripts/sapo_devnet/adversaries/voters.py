"""Honest batches, false votes."""

from collections.abc import Mapping, Sequence

from sapo_client.batches.auditing import AuditCounts, Seen
from sapo_client.batches.pool import NOBODY, Holders, Pool
from sapo_client.duties.ballots import Deal
from sapo_client.duties.verdicts import NOTHING_ASKED, Found, Told, Verdicts
from sapo_client.training.groups import Group
from sapo_client.transactions.turns import put_once
from sapo_devnet.adversaries.adversary import Accomplice, Adversary
from sapo_verifier.chain.audits import BatchState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.checks import Verdict
from sapo_verifier.facts import BatchInfo
from sapo_verifier.schedule import DISPUTE_AFTER


class BlindPool(Pool):
    """Fetches nothing."""

    def look(
        self, batches: Sequence[BatchInfo], *, again: bool = False, anew: bool = False, holders: Holders = NOBODY
    ) -> tuple[list[Seen], AuditCounts]:
        return [], AuditCounts()

    def offer(self, batches: Sequence[BatchInfo]) -> list[Group]:
        return []


class UnseenVerdicts(Verdicts):
    """The same verdict about everything."""

    always = Verdict.ACCEPT

    def judge(self, deal: Deal, window: Sequence[BatchInfo], judged: Sequence[BatchInfo]) -> AuditCounts:
        verdicts = {batch.index: self.always for batch in judged}
        self.fill_in(deal, window, verdicts, {index: [] for index in verdicts})
        self.send(deal)
        return AuditCounts()


class LyingVerdicts(UnseenVerdicts):
    always = Verdict.REJECT


class SilentVerdicts(Verdicts):
    def reveal(self, current: int, stage: int) -> None:
        pass


class NoVerdicts(Verdicts):
    def commit(self, current: int, stage: int) -> AuditCounts:
        return AuditCounts()


class CensoringVerdicts(Verdicts):
    def fill_in(
        self,
        deal: Deal,
        window: Sequence[BatchInfo],
        verdicts: Mapping[int, int],
        found: Found,
        answers: Told = NOTHING_ASKED,
    ) -> None:
        judged = sorted((b for b in window if b.index in verdicts), key=lambda b: -b.claim.bit_count())
        best = [batch.index for batch in judged[: (len(judged) + 1) // 2]]
        super().fill_in(deal, window, {**verdicts, **dict.fromkeys(best, Verdict.VOID)}, found, answers)


class FrivolousDuties(Accomplice):
    def denounce(self, current: int) -> None:
        judged, actor = current - DISPUTE_AFTER, self.actor
        for batch in self.verdicts.auditor.window(judged, 1) if judged >= 0 else []:
            if actor.audits.outcome_of(batch.index).state is BatchState.STANDING:
                call = Call("disputes", "dispute", (batch.index, batch.index))
                bond = actor.audits.terms().dispute_bond
                put_once(actor.outbox, f"dispute/{judged}/{batch.index}", call, value=bond, deadline_round=current)


class Lazy(Adversary):
    """Accepts everything unseen."""

    pool = BlindPool
    verdicts = UnseenVerdicts


class Liar(Adversary):
    """Rejects everything."""

    pool = BlindPool
    verdicts = LyingVerdicts


class Silent(Adversary):
    """Commits its verdicts and never reveals them."""

    verdicts = SilentVerdicts


class FrivolousDisputer(Adversary):
    """Disputes every batch that stage 1 accepted."""

    duties = FrivolousDuties


class Absent(Adversary):
    """Publishes, and never votes: one of those because of whom a turnout is low."""

    pool = BlindPool
    verdicts = NoVerdicts


class Censor(Adversary):
    """Says void about the half of its window that claims most, as if it could not be had: the fewer are paid, the more
    is left for others, it hopes."""

    verdicts = CensoringVerdicts
