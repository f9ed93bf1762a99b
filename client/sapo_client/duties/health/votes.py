"""The verdicts on own batches, and the reports behind those that doubt them, read within a time limit."""

from collections.abc import Mapping, Sequence
from functools import partial

from sapo_client.duties.health.bounded import each_within
from sapo_client.duties.health.judged import REJECT, VOID, OwnBatch, Said
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.votes import Vote, votes_on
from sapo_verifier.reports import ReportError, report_on

MOST_BATCHES = 3  # the latest ones that somebody doubts
MOST_REPORTS = 12
REPORT_SECONDS = 2.0
MOST_WORDS = 200  # characters of a stranger's reason


def own_batches(reader: ChainReader, audits: AuditsReader, node: str, rounds: Sequence[int]) -> list[OwnBatch]:
    """The node's batches of these rounds, by round, without what was said against them."""
    held = reader.call_many([Call("rounds", "batchOf", (node, round_)) for round_ in rounds])
    indices = {round_: index for round_, (exists, index) in zip(rounds, held, strict=True) if exists}
    outcomes = audits.outcomes_of(list(indices.values()))
    return [OwnBatch(o.index, round_, o) for round_, o in zip(indices, outcomes, strict=True)]


def with_votes(reader: ChainReader, batches: Sequence[OwnBatch], head: int) -> tuple[list[OwnBatch], list[Vote]]:
    """The batches with who rejected them or called them void, of the latest ones that anybody did; and these votes,
    whose reports say why. Raises ChainUnavailable."""
    doubted = [batch for batch in batches if batch.doubts][-MOST_BATCHES:]
    if not doubted:
        return list(batches), []
    infos = reader.batches_at([batch.index for batch in doubted])
    votes = [vote for vote in votes_on(reader, infos, head) if vote.verdict in (REJECT, VOID)]
    bare = {vote: Said(vote.voter, vote.stage, vote.verdict, "", "its report was not asked for") for vote in votes}
    return told(batches, bare), votes[-MOST_REPORTS:]


def told(batches: Sequence[OwnBatch], said: Mapping[Vote, Said]) -> list[OwnBatch]:
    """The batches with these words against them."""
    return [
        OwnBatch(b.index, b.round, b.outcome, [s for vote, s in said.items() if vote.index == b.index] or b.against)
        for b in batches
    ]


def read_reports(votes: Sequence[Vote], endpoints: Mapping[str, str], *, allow_private: bool) -> dict[Vote, Said]:
    """Why each of these verdicts was given, by its report, all within a little more than REPORT_SECONDS.

    endpoints: by voter, as on the chain. Its words are a stranger's: they are cut and made harmless.
    """

    def one(vote: Vote) -> Said:
        try:
            said = report_on(vote, endpoints[vote.voter], allow_private=allow_private, seconds=REPORT_SECONDS)
        except ReportError as error:
            return Said(vote.voter, vote.stage, vote.verdict, "", harmless(str(error)))
        worst = next((found for found in reversed(said.findings) if found.status != "unknown"), None)
        if worst is None:
            return Said(vote.voter, vote.stage, vote.verdict, "", "its report names no check")
        return Said(vote.voter, vote.stage, vote.verdict, harmless(worst.check), harmless(worst.reason))

    found = each_within({vote: partial(one, vote) for vote in votes}, REPORT_SECONDS + 0.5)
    late = "its report did not come in time"
    return {vote: found.get(vote) or Said(vote.voter, vote.stage, vote.verdict, "", late) for vote in votes}


def harmless(words: str) -> str:
    """A stranger's words for a terminal: one line, no control characters, not long."""
    return " ".join(ascii(words)[1:-1].split())[:MOST_WORDS]
