"""The report behind a vote: fetched from where its voter serves blocks, and held against what is on chain."""

from sapo_verifier.chain.votes import Vote
from sapo_verifier.errors import ObjectError
from sapo_verifier.ipfs import BlockError, EndpointError, parse_endpoint
from sapo_verifier.ipfs.gateway import fetch_block
from sapo_verifier.objects import BatchVerdict, VerdictReport


class ReportError(ObjectError):
    """A report is not to be had, or does not fit its vote."""


def report_on(vote: Vote, endpoint: str, *, allow_private: bool, seconds: float) -> BatchVerdict:
    """What the voter's report says about the batch of its vote, within `seconds`.

    endpoint: the voter's, as on the chain. Raises ReportError, in words.
    """
    try:
        block = fetch_block(parse_endpoint(endpoint, allow_private=allow_private), vote.report, timeout=seconds)
        report = VerdictReport.parse(block)
    except (BlockError, EndpointError, ObjectError) as error:
        raise ReportError(f"its report is not to be had: {error}") from error
    said = next((batch for batch in report.batches if batch.index == vote.index), None)
    if (report.round, report.stage, report.voter) != (vote.round, vote.stage, vote.voter) or said is None:
        raise ReportError("its report is about something else")
    if said.verdict != vote.verdict:
        raise ReportError("its report says another verdict than it revealed")
    return said
