"""A node's whole history: its batches and how they ended, verdicts given and received, its bond, and its pay."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sapo_verifier.agreement import slashes_of, why_void
from sapo_verifier.chain.audits import AuditsReader, BatchOutcome, Payout, RoundTotals
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.event_words import words_of
from sapo_verifier.chain.events import CHUNK, ChainEvent, between
from sapo_verifier.chain.pinned import PinnedReader, Source
from sapo_verifier.chain.reader import NodeState, open_chain
from sapo_verifier.chain.urls import RPC
from sapo_verifier.chain.votes import Revealed, Vote, read_reveals
from sapo_verifier.checks import Verdict, plain
from sapo_verifier.errors import UnableError, UsageError
from sapo_verifier.pay import Pay, is_right, schedule
from sapo_verifier.schedule import FINAL_AFTER, REVEAL_AFTER
from sapo_verifier.spec import ChainRules

MONEY = {
    "NodeRegistered", "BondToppedUp", "NodeFined", "NodeSlashed", "BondWithdrawn", "BatchDisputed", "DisputeClosed",
    "BountyClaimed", "Settled", "NodeProvenFalse",
}  # fmt: skip
COLUMNS = ("round", "batch", "state", "score", "per_one", "producer", "verdicts", "per_verdict", "auditor", "total")


@dataclass(frozen=True)
class Verdicted:
    """One verdict. voter: who gave it; right: whether the batch ended so, None where it is not final or void."""

    index: int
    round: int
    stage: int
    voter: str
    verdict: str
    right: bool | None


@dataclass(frozen=True)
class NodeBatch:
    """A batch of the node, how it ended (or stands), and who said what about it."""

    index: int
    round: int
    score: int
    state: str
    final: bool
    why_void: str
    received: list[Verdicted]


@dataclass(frozen=True)
class Movement:
    """Something that happened to its coins, or because of which it did."""

    block: int
    transaction: str
    event: str
    words: str


@dataclass(frozen=True)
class NodeHistory:
    """Of a node, from round `since` on. bond: in wei; pays: of final rounds in which it has a batch."""

    source: Source
    node: str
    since: int
    state: str
    operator: str
    endpoint: str
    bond: int
    settled: bool
    batches: list[NodeBatch]
    given: list[Verdicted]
    movements: list[Movement]
    pays: list[Pay]

    def exit_status(self) -> int:
        """1 where the contract pays something else than the rules, 0 otherwise."""
        return int(any(pay.differs for pay in self.pays))

    def csv(self) -> str:
        """Its pay, for one's books: a line per round, amounts in tokens."""
        states = {batch.round: batch for batch in self.batches}
        lines = [",".join((*COLUMNS, "claimed"))]
        for pay in self.pays:
            batch = states[pay.round]
            amounts = [coins(pay.per_one), coins(pay.producer), pay.verdicts, coins(pay.per_verdict)]
            cells = [pay.round, batch.index, batch.state, pay.score, *amounts, coins(pay.auditor), coins(pay.total)]
            lines.append(",".join(map(str, [*cells, "yes" if pay.claimed else "no"])))
        return "\n".join(lines) + "\n"


def node_history(
    address: str, deployment: Deployment, *, rpc: str | Sequence[str] = RPC, since: int = 0
) -> NodeHistory:
    """What a node did and got since round `since`, read at one block. address: the owner's, 0x and 40 hex digits.

    Raises UsageError for what is no address, UnableError for one that never was a node, for a round that has not
    begun, or where the chain does not answer.
    """
    with open_chain(deployment, rpc) as reader:
        return history_in(PinnedReader(reader), address, since)


def history_in(reader: PinnedReader, address: str, since: int) -> NodeHistory:
    """As node_history."""
    node = parse_address(address)
    if since:
        reader.refuse_later(since)
    info = reader.node_of(node)
    if info.state is NodeState.NONE:
        raise UnableError(
            f"{node} never was a node of this network (chain {reader.deployment.chain_id}); "
            "give the owner's address, not the operator's, and the right --deployment"
        )
    start = reader.deployment.block if since == 0 else reader.first_block_of(since)
    events = [event for event in _events(reader, start) if event.name in MONEY | {"VerdictsRevealed", "BatchSubmitted"}]
    indices = [e.args["index"] for e in events if e.name == "BatchSubmitted" and e.args["node"] == node]
    reveals = [event for event in events if event.name == "VerdictsRevealed"]
    own, votes = _votes(reader, node, reveals, indices)
    given = [
        Vote(index, each.round, each.stage, node, said, each.report)
        for each in own
        for index in each.window
        if (said := each.verdict(index))
    ]
    asked = sorted({*indices, *(vote.index for vote in given)})
    audits = AuditsReader(reader)
    outcomes = {outcome.index: outcome for outcome in audits.outcomes_of(asked)}
    batches = _batches(reader, indices, outcomes, votes)
    final = [batch.round for batch in batches if batch.round + FINAL_AFTER <= reader.current_round()]
    totals = reader.call_many([Call("audits", "roundTotals", (round_,)) for round_ in final])
    rules = reader.deployment.spec.chain
    pays = [
        _pay(rules, node, payout, RoundTotals(*total))
        for payout, total in zip(audits.payouts_of(node, final), totals, strict=True)
    ]
    history = NodeHistory(
        source=reader.source,
        node=node,
        since=since,
        state=info.state.value,
        operator=info.operator,
        endpoint=info.endpoint,
        bond=info.bond,
        settled=audits.is_settled(node),
        batches=batches,
        given=[_verdicted(vote, outcomes[vote.index]) for vote in given],
        movements=[
            Movement(event.block, "0x" + event.transaction.hex(), event.name, words_of(event))
            for event in events
            if event.name in MONEY and node in event.args.values()
        ],
        pays=pays,
    )
    reader.check_same()
    return history


def parse_address(text: str) -> str:
    """Lower case. Raises UsageError for what is no address."""
    if len(text) != 42 or text[:2].lower() != "0x" or not all(c in "0123456789abcdefABCDEF" for c in text[2:]):
        raise UsageError(
            f"{text[:80]!r} is no address: 0x and 40 hex digits, such as `sapo-verify round` shows of nodes"
        )
    return text.lower()


def in_words(history: NodeHistory) -> Iterator[str]:
    """Lines for a terminal."""
    yield f"node {history.node}: {history.state}, bond {coins(history.bond)}, operator {history.operator}"
    yield f"  blocks: {plain(history.endpoint)}"
    if not history.settled:
        yield "  something of it is overdue"
    for batch in history.batches:
        void = f" ({batch.why_void})" if batch.why_void else ""
        said = ", ".join(f"{vote.voter[:8]}… {vote.verdict}{'²' if vote.stage == 2 else ''}" for vote in batch.received)
        pending = "" if batch.final else ", not final yet"
        ended = f"{batch.state}{void}{pending}"
        yield f"  round {batch.round}: batch {batch.index}, score {batch.score}, {ended}; said: {said or '-'}"
    for vote in history.given:
        right = {True: "right", False: "not right", None: "open"}[vote.right]
        yield f"  said of batch {vote.index} (round {vote.round}, stage {vote.stage}): {vote.verdict}, {right}"
    for movement in history.movements:
        yield f"  block {movement.block}: {movement.words}"


def _events(reader: PinnedReader, start: int) -> Iterator[ChainEvent]:
    head = reader.block_number()
    for first in range(start, head + 1, CHUNK):
        yield from between(reader, first, min(first + CHUNK - 1, head))


def _votes(
    reader: PinnedReader, node: str, reveals: Sequence[ChainEvent], indices: Sequence[int]
) -> tuple[list[Revealed], list[Vote]]:
    """What the node revealed, and what others said of its batches."""
    rounds = {batch.round: batch.index for batch in reader.batches_at(indices)}
    about = {event.args["round"] for event in reveals if event.args["voter"] == node} | rounds.keys()
    own: list[Revealed] = []
    received: list[Vote] = []
    for round_ in sorted(about):
        of_round = [event for event in reveals if event.args["round"] == round_]
        for stage in REVEAL_AFTER:
            mine = [rounds[round_]] if round_ in rounds else []
            for each in read_reveals(reader, round_, stage, of_round, about=mine, by=[node]):
                if each.voter == node:
                    own.append(each)
                for index in mine:
                    if (said := each.verdict(index)) is not None:
                        received.append(Vote(index, round_, stage, each.voter, said, each.report))
    return own, received


def _batches(
    reader: PinnedReader, indices: Sequence[int], outcomes: dict[int, BatchOutcome], votes: Sequence[Vote]
) -> list[NodeBatch]:
    infos = reader.batches_at(indices)
    slashes = slashes_of(
        reader, [info for info in infos if outcomes[info.index].state.value == "void"], reader.block.number
    )
    found = []
    for info in infos:
        outcome, count = outcomes[info.index], reader.round_at(info.round).count
        void = why_void(outcome, reader.deployment.spec.chain, count, slashes.get(info.index))
        received = [_verdicted(vote, outcome) for vote in votes if vote.index == info.index]
        score, state = info.claim.bit_count(), outcome.state.value
        found.append(NodeBatch(info.index, info.round, score, state, outcome.is_final, void, received))
    return found


def _verdicted(vote: Vote, outcome: BatchOutcome) -> Verdicted:
    decided = outcome.is_final and outcome.state.value != "void"
    word = Verdict(vote.verdict).name.lower()
    return Verdicted(vote.index, vote.round, vote.stage, vote.voter, word, is_right(vote, outcome) if decided else None)


def _pay(rules: ChainRules, node: str, payout: Payout, totals: RoundTotals) -> Pay:
    """A payout written out, by the round's totals."""
    pool = schedule(rules, payout.round)
    auditors = pool * rules.auditors_share // 10_000
    per_one = min((pool - auditors) // totals.claimed, int(rules.max_per_unit, 16)) if totals.claimed else 0
    per_verdict = min(auditors // totals.paid_verdicts, int(rules.max_per_verdict, 16)) if totals.paid_verdicts else 0
    producer, auditor = payout.score * per_one, payout.verdicts * per_verdict
    differs = ""
    if (producer, auditor) != (payout.producer, payout.auditor):
        differs = (
            f"the contract pays {payout.producer} and {payout.auditor}, by the rules it is {producer} and {auditor}"
        )
    amounts = {"score": payout.score, "per_one": per_one, "producer": producer, "verdicts": payout.verdicts}
    amounts |= {"per_verdict": per_verdict, "auditor": auditor, "total": producer + auditor}
    return Pay(round=payout.round, node=node, claimed=payout.claimed, differs=differs, **amounts)
