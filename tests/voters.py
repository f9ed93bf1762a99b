"""Nodes that vote on a real chain with findings that the test makes up: no batches' contents, no IPFS, no model."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sapo_client.batches.auditing import Asked, AuditCounts, Auditor, Seen
from sapo_client.batches.pool import NOBODY, Holders
from sapo_client.batches.presence import Wish
from sapo_client.batches.seeds import Seeds
from sapo_client.duties.actor import Actor
from sapo_client.duties.answers import Answers
from sapo_client.duties.ballots import Ballot, BallotBox, deal_of
from sapo_client.duties.beacon import Capture
from sapo_client.duties.bond import Bond
from sapo_client.duties.disputes import Disputes
from sapo_client.duties.duties import Duties
from sapo_client.duties.looking import Looking
from sapo_client.duties.promises import Promises
from sapo_client.duties.requests import Requests
from sapo_client.duties.settling import Settler
from sapo_client.duties.testimony import Testimony
from sapo_client.duties.verdicts import Verdicts
from sapo_client.duties.watches import Watches
from sapo_client.state.report import SayOnce, StatusFile
from sapo_client.state.requests import RequestBook
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.turns import Turns
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.networks import BOND, Network, deploy_on
from sapo_verifier.audit import CheckResult, Status
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import pages
from sapo_verifier.chain.votes import Revealed
from sapo_verifier.checks import verdict
from sapo_verifier.facts import BatchInfo
from sapo_verifier.ipfs import BlockError, BlockUnavailable
from sapo_verifier.proofs import Proof
from sapo_verifier.spots import Spots

GAS = 1_000_000
MOST_BLOCKS = 16  # until everybody has had its turn; a round has 20
ENDPOINT = "/ip4/10.0.0.1/tcp/80/http"  # where nobody serves anything
POLICY = bytes(31) + b"\1"


def outcomes(status: Status) -> list[CheckResult]:
    return [CheckResult("available", "pass"), CheckResult("reward", status, f"{status} it is", 0, 1)]


PASS, FAIL, VOID, UNKNOWN = outcomes("pass"), outcomes("fail"), outcomes("void"), outcomes("unknown")


def send(network: Network, calls: Iterable[tuple[int, Call, int]]) -> None:
    """(account, call, wei): all in one block, and all must succeed."""
    w3, reader, sent = network.chain.w3, network.reader(), []
    for account, call, value in calls:
        sender = network.chain.account(account).address
        request: Any = {"from": sender, "to": w3.to_checksum_address(reader.address_of(call.contract))}
        request |= {"data": "0x" + call.encode().hex(), "gas": GAS, "value": value}
        sent.append((call, sender, w3.eth.send_transaction(request)))
    network.chain.mine()
    for call, sender, hash_ in sent:
        if w3.eth.get_transaction_receipt(hash_)["status"] != 1:
            reader.call(call, sender=sender)  # says why
            raise AssertionError(f"{call.function} failed")


def register(network: Network, accounts: Iterable[int]) -> None:
    network.chain.rpc("evm_setAutomine", False)
    calls = [(i, address(network, i)) for i in accounts]
    send(network, [(i, Call("nodes", "register", (node, ENDPOINT)), BOND) for i, node in calls])


def address(network: Network, account: int) -> str:
    return network.chain.account(account).address.lower()


def commit(network: Network, accounts: Iterable[int], round_: int) -> None:
    """Policies for a round, in the round before it."""
    network.mine_to_round(round_ - 1)
    nodes = [(i, address(network, i)) for i in accounts]
    send(network, [(i, Call("rounds", "commitPolicy", (node, round_, POLICY, 2)), 0) for i, node in nodes])


def submit(network: Network, scores: dict[int, int], round_: int) -> dict[int, int]:
    """Batches of these accounts with as many ones claimed; their indices."""
    beacon, reader = begin(network, round_), network.reader()
    calls = []
    for account, score in scores.items():
        root = bytes(30) + bytes([round_, account])
        arguments = (address(network, account), round_, beacon, root, root, (1 << score) - 1)
        calls.append((account, Call("rounds", "submit", arguments), 0))
    send(network, calls)
    found = {account: reader.batch_of(address(network, account), round_) for account in scores}
    assert None not in found.values()
    return {account: index for account, index in found.items() if index is not None}


@contextmanager
def network_with_batches(accounts: Sequence[int], round_: int) -> Iterator[Network]:
    """Nodes with a batch each in the round; the account's number is the batch's score."""
    with anvil() as chain:
        made = deploy_on(chain)
        register(made, accounts)
        commit(made, accounts, round_)
        submit(made, {account: account for account in accounts}, round_)
        yield made
        made.close()


@contextmanager
def set_back(network: Network) -> Iterator[Network]:
    """Afterwards the chain is at the same block again."""
    point = network.chain.rpc("evm_snapshot")
    yield network
    network.chain.rpc("anvil_dropAllTransactions")
    assert network.chain.rpc("evm_revert", point)


def begin(network: Network, round_: int) -> bytes:
    """The round has begun, and its beacon is captured."""
    network.mine_to_round(round_)
    network.chain.mine()
    send(network, [(0, Call("rounds", "poke"), 0)])
    beacon = network.reader().beacon(round_)
    assert beacon is not None
    return beacon


@dataclass
class FakePool:
    """Findings from the test: PASS unless it says otherwise."""

    findings: dict[int, list[CheckResult]] = field(default_factory=dict)  # by index
    answers: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by index
    found: list[tuple[BatchInfo, Proof]] = field(default_factory=list)
    looked: list[int] = field(default_factory=list)
    met: set[str] = field(default_factory=set)
    copies: dict[int, list[CheckResult]] = field(default_factory=dict)  # what others' copies of a batch show
    hiding: set[int] = field(default_factory=set)  # batches whose policies hide what they are
    judged: dict[int, CheckResult] = field(default_factory=dict)  # answers about a batch, by its index

    def look(
        self, batches: Sequence[BatchInfo], *, again: bool = False, anew: bool = False, holders: Holders = NOBODY
    ) -> tuple[list[Seen], AuditCounts]:
        self.looked += [batch.index for batch in batches]
        self.met |= {batch.node for batch in batches}
        for index, nodes in holders.items():
            if (again or anew) and nodes and index in self.copies:
                self.findings[index] = self.copies[index]
        return [self._seen(batch) for batch in batches], AuditCounts()

    def _seen(self, batch: BatchInfo) -> Seen:
        results = self.findings.get(batch.index, PASS)
        missing = ((batch.manifest, 1),) if results == VOID else ()
        answers, hides = self.answers.get(batch.index, ()), batch.index in self.hiding
        return Seen(batch, results, [], None, missing=missing, hides=hides, answers=answers)

    def judge(self, asked: Sequence[Asked]) -> list[CheckResult]:
        return [self.judged.get(each.batch.index, CheckResult("answers", "pass")) for each in asked]

    def producers(self) -> set[str]:
        return self.met

    def proofs(self) -> list[tuple[BatchInfo, Proof]]:
        return self.found


@dataclass
class FakeBlocks:
    """What would be put to IPFS."""

    kept: list[bytes] = field(default_factory=list)

    def keep(self, blocks: Iterable[bytes], round_: int) -> None:
        self.kept += blocks


@dataclass
class FakePresence:
    """Everything is served but for what the test takes away; counts how often each batch was asked for."""

    away: set[int] = field(default_factory=set)  # by index: from their producers
    copies: set[str] = field(default_factory=set)  # nodes that serve what they fetched
    looks: Counter[int] = field(default_factory=Counter)

    def drawn(self, batches: Sequence[BatchInfo], *, every_kind: bool, holders: Holders = NOBODY) -> list[Wish]:
        return [Wish(batch, [(batch.manifest, 1)], tuple(holders.get(batch.index, ()))) for batch in batches]

    def unserved(self, wishes: Sequence[Wish]) -> list[Wish]:
        self.looks.update(wish.batch.index for wish in wishes)
        return [wish for wish in wishes if wish.batch.index in self.away and not self.copies & set(wish.holders)]


@dataclass
class FakeStore:
    """The blocks that a daemon has."""

    blocks: dict[bytes, bytes] = field(default_factory=dict)

    def get_many(
        self, wants: Sequence[tuple[bytes, int]], peers: Sequence[str], *, deadline: float
    ) -> dict[bytes, bytes | BlockError]:
        return {digest: self.blocks.get(digest) or BlockUnavailable("it was never put") for digest, _ in wants}


class Unasked(Seeds):
    """Salts as they are, for policies without a manifest, whose `audit` nobody can read."""

    def why_none(self, round_: int) -> str:
        return ""


class Uncounted(Answers):
    """Answers as the pool judges them, where no ballot has any."""

    def are_counted(self, testimony: Testimony, ballot: Revealed) -> bool:
        return True

    def why_false(self, testimony: Testimony, ballot: Revealed, nodes: Sequence[str] = ()) -> tuple[str, bool]:
        return "", True

    def asked(self, testimony: Testimony, ballot: Revealed, about: int, first: Sequence[str] = ()) -> Asked:
        return Asked(testimony.batches[about], Spots(ballot.salt, 1, 1), [], [])


class Voter:
    """One node's votes, with an outbox and a ballot box of its own, which `restart` opens again."""

    answers: type[Answers] = Uncounted
    operator: int | None = None  # the account that sends, once it is set and the voter restarted; None: the owner

    def __init__(self, network: Network, account: int, folder: Path, seeds: type[Seeds] = Unasked) -> None:
        self.network, self.account = network, account
        self.folder = folder / str(account)
        self.folder.mkdir()
        self.node = address(network, account)
        self.blocks = FakeBlocks()
        self.said: list[str] = []
        self.presence = FakePresence()
        self.reader = network.reader()
        self.audits = AuditsReader(self.reader)
        unused: Any = None
        self.pool = FakePool()
        self.store = FakeStore()
        store: Any = self.store
        self.seeds = seeds.of(network.chain.account(account), self.node, self.reader, store)
        self.auditor = Auditor(self.reader, unused, network.spec, unused, unused, None, unused, self.node, self.seeds)
        self.open()

    def open(self) -> None:
        key = self.network.chain.account(self.account if self.operator is None else self.operator)
        name = "outbox.sqlite" if self.operator is None else f"outbox-of-{self.operator}.sqlite"
        self.outbox = Outbox(self.folder / name, self.reader, key, confirmations=2)
        self.ballots = BallotBox(self.folder / "ballots.sqlite")
        self.turns = Turns(self.node, self.outbox)
        pool: Any = self.pool
        presence: Any = self.presence
        blocks: Any = self.blocks
        self.requests = Requests(self.reader, self.outbox, self.node, RequestBook(self.folder / "requests.sqlite"))
        say, may_promise = self.said.append, self.requests.may_promise
        actor = Actor(self.node, self.reader, self.audits, self.outbox, self.turns, say, may_promise)
        watches = Watches(self.reader, presence)
        bond = Bond(actor)
        answers = self.answers(self.auditor, pool)
        disputes = Disputes(actor, self.ballots, self.auditor, presence, watches, pool)
        self.duties = Duties(
            actor,
            bond,
            Promises(self.reader, bond, pays=True),
            Verdicts(actor, self.ballots, self.auditor, pool, presence, watches, blocks, self.seeds, answers),
            disputes,
            Looking(actor, answers, disputes),
            Settler(actor, self.auditor, pool),
            watches,
        )

    def close(self) -> None:
        self.outbox.close()
        self.ballots.close()
        self.requests.book.close()

    def restart(self) -> None:
        self.close()
        self.open()

    def play(self, round_: int) -> None:
        """What is due, into the outbox and out of it; nothing is mined."""
        self.duties.begin()
        self.duties.play(round_)
        self.outbox.pump()

    def step(self) -> None:
        """One poll, as the node's loop makes it."""
        self.duties.go_on()
        self.turns.step(self.reader.block_number())
        self.outbox.pump()

    @property
    def waits(self) -> bool:
        return bool(self.outbox.pending() or self.turns or not self.duties.finished)

    def ballot(self, round_: int, stage: int) -> Ballot | None:
        """What it says, or would say, on the chain as it is now."""
        deal = deal_of(self.reader, round_, stage)
        return None if deal is None else self.ballots.get(deal)

    def fill_in(self, round_: int) -> Ballot:
        """Its ballot of stage 1, stored and not committed."""
        window = self.auditor.window(round_, 1)
        looked, _ = self.pool.look(window)
        found = {seen.batch.index: seen.results for seen in looked}
        answers = {seen.batch.index: seen.answers for seen in looked}
        deal = deal_of(self.reader, round_, 1)
        assert deal is not None
        verdicts = {index: verdict(each) for index, each in found.items()}
        self.duties.verdicts.fill_in(deal, window, verdicts, found, answers)
        ballot = self.ballots.get(deal)
        assert ballot is not None
        return ballot

    def status(self, key: str) -> str:
        return self.outbox.state(key).status

    def problems(self) -> dict[str, str]:
        """What the chain did not take, by key."""
        keys = [row[0] for row in self.outbox._store._db.execute("SELECT key FROM entry")]
        states = {key: self.outbox.state(key) for key in keys}
        return {key: state.reason for key, state in states.items() if state.status in ("failed", "expired")}


def revealed(network: Network, voter: Voter, round_: int, stage: int = 1) -> dict[str, Any]:
    """What the chain announced of a voter's verdicts on a round."""
    events = [event for page in pages(network.reader(), None) for event in page.events]
    reveals = [event.args for event in events if event.name == "VerdictsRevealed"]
    wanted = (voter.node, round_, stage)
    return next(args for args in reveals if (args["voter"], args["round"], args["stage"]) == wanted)


def light_parts(voter: Voter, **others: Any) -> Any:
    """A node's parts as far as its steps on chain need them, without a policy or daemon; `others` replace or add."""
    parts = {
        "home": voter.folder,
        "node": voter.node,
        "reader": voter.reader,
        "outbox": voter.outbox,
        "turns": voter.turns,
        "capture": Capture(voter.reader, voter.turns),
        "blocks": voter.blocks,
        "learner": SimpleNamespace(published=None),
        "seeds": voter.seeds,
        "promises": voter.duties.promises,
        "duties": None,
        "elsewhere": SimpleNamespace(look=lambda current, info: ""),
        "requests": voter.requests,
        "say": SayOnce(logging.getLogger("sapo_client").warning),
        "status": StatusFile(voter.folder),
        "poll_seconds": 0.0,
        "patience_minutes": 30.0,
        "daemon_patience_minutes": 30.0,
        "last_round": None,
    }
    return SimpleNamespace(**parts | others)


def play_round(network: Network, voters: Iterable[Voter], round_: int) -> None:
    """A whole round: its beacon, everybody's duties, and their transactions mined."""
    begin(network, round_)
    voters = list(voters)
    for voter in voters:
        voter.play(round_)
    settle_outboxes(network, voters)


def settle_outboxes(network: Network, voters: Iterable[Voter]) -> None:
    for _ in range(MOST_BLOCKS):
        network.chain.mine()
        for voter in voters:
            voter.step()
        if not any(voter.waits for voter in voters):
            return
    raise AssertionError({voter.account: voter.outbox.pending() for voter in voters})
