"""What others found about the node's own batches: which check did not pass, by whom; and whether anybody reached it."""

from collections.abc import Sequence
from dataclasses import dataclass

from sapo_verifier.chain.audits import BatchOutcome, BatchState

ACCEPT, REJECT, VOID = 1, 2, 3  # as in the verdicts' word
SAYS = {ACCEPT: "accepts", REJECT: "rejects", VOID: "calls void"}
MOST_NAMED = 3  # voters of one batch
ABOUT_BLOCKS = ("available", "size", "digest")  # checks that do not pass where blocks did not come, or came wrong
BAD = (BatchState.VOID, BatchState.REJECTED, BatchState.PROVEN_FALSE, BatchState.DISPUTED)


@dataclass(frozen=True)
class Said:
    """A voter's verdict on an own batch. check, reason: of the finding behind it, made harmless for a terminal; where
    there is no report, check is empty and reason says why."""

    voter: str
    stage: int
    verdict: int
    check: str = ""
    reason: str = ""

    @property
    def words(self) -> str:
        what = f"{self.check}: {self.reason}" if self.check else self.reason
        return (
            f"{self.voter} {SAYS.get(self.verdict, 'abstains from')} it in stage {self.stage} ({what or 'no reason'})"
        )


@dataclass(frozen=True)
class OwnBatch:
    """An own batch, how it fares, and what was said against it."""

    index: int
    round: int
    outcome: BatchOutcome
    against: Sequence[Said] = ()

    @property
    def doubts(self) -> int:
        """Verdicts that are no accept and no abstention."""
        return sum(votes.rejects + votes.voids for votes in (self.outcome.stage_1, self.outcome.stage_2))

    @property
    def is_doubted(self) -> bool:
        """Disputed, or ended badly: and not because too few voted, which is not this node's fault."""
        outcome = self.outcome
        if outcome.state in (BatchState.REJECTED, BatchState.PROVEN_FALSE) or outcome.disputer is not None:
            return outcome.state is not BatchState.ACCEPTED
        return bool(self.doubts) and outcome.state in BAD


def by_whom(batch: OwnBatch) -> str:
    """Who said what against it, in words; by number where no reveal was read."""
    if not batch.against:
        one, two = batch.outcome.stage_1, batch.outcome.stage_2
        return (
            f"{one.rejects + two.rejects} rejects and {one.voids + two.voids} voids were revealed; `sapo-verify batch "
            f"{batch.index}` says what it looks like from elsewhere"
        )
    named = "; ".join(said.words for said in batch.against[:MOST_NAMED])
    more = len(batch.against) - MOST_NAMED
    return named + (f"; and {more} more" if more > 0 else "")


def batch_reasons(batches: Sequence[OwnBatch]) -> list[str]:
    """Own batches that are disputed, void, rejected or proven false, with the check and the voter."""
    wrong = []
    for batch in batches:
        if not batch.is_doubted:
            continue
        state = batch.outcome.state.value
        who = f" (by {batch.outcome.disputer}, who locked a bond)" if batch.outcome.disputer else ""
        wrong.append(
            f"the own batch {batch.index} of round {batch.round} is {state}{who}: {by_whom(batch)}. {_remedy(batch)}"
        )
    return wrong


def _remedy(batch: OwnBatch) -> str:
    if batch.outcome.state is BatchState.PROVEN_FALSE:
        return "A fault in it was proven on chain, and the bond is gone"
    if all(said.check in ABOUT_BLOCKS for said in batch.against if said.check):
        return "See that the endpoint can be reached from outside and that the IPFS daemon holds its blocks"
    return "See that this node runs the release and the base that the network's spec names, and unchanged"


def reached(batches: Sequence[OwnBatch], current: int) -> tuple[bool | None, str]:
    """Whether another party got this node's blocks from outside, by the latest batch that was judged; None: unknown.

    Accepting or rejecting takes all blocks, and so does a void that is not about blocks.
    """
    for batch in sorted(batches, key=lambda batch: -batch.round):
        votes = (batch.outcome.stage_1, batch.outcome.stage_2)
        lost = [said for said in batch.against if said.verdict == VOID and said.check in ABOUT_BLOCKS]
        other = [said for said in batch.against if said.verdict == VOID and said.check not in ("", *ABOUT_BLOCKS)]
        by = sum(each.accepts + each.rejects for each in votes) + len(other)
        if by:
            but = f"; {len(lost)} others could not get all of them: {lost[0].reason}" if lost else ""
            verdicts = "verdict" if by == 1 else "verdicts"
            return (
                True,
                f"in round {batch.round}: {by} {verdicts} of others took all blocks of batch {batch.index}{but}",
            )
        if lost:
            return False, f"not in round {batch.round}: {lost[0].voter} says: {lost[0].check}: {lost[0].reason}"
        if any(each.voids for each in votes):
            return None, (
                f"not checked: batch {batch.index} of round {batch.round} was called void, and no voter's report is to "
                "be had that says why"
            )
    return None, f"not checked: nobody has revealed a verdict on an own batch up to round {current} that says so"


def reached_reasons(is_reached: bool | None, words: str, *, alone: bool) -> list[str]:
    """alone: nobody else is expected to check (`[ipfs] allow_private`), so that not knowing is no fault."""
    if is_reached is False:
        return [
            f"not reached from outside: {words}. See that the endpoint leads to this machine's gateway: router, "
            "firewall, name, certificate"
        ]
    if is_reached is None and not alone:
        return [
            f"reached from outside: {words}. It is checked as soon as another node votes on a batch of this one; to "
            "have it checked now, name a gateway of somebody else: `sapo status --probe https://…`, or [ipfs] probe_url"
        ]
    return []
