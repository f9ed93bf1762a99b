"""The simulation's rules are the contract's: a random round on a chain ends, and pays, as it does in the simulation."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.networks import Network, deploy_on, small_spec
from sapo_lab.simulation import rules as r
from sapo_lab.simulation.choices import Rules
from sapo_lab.simulation.rules import Ballots
from sapo_verifier import protocol
from sapo_verifier.agreement import why_void
from sapo_verifier.chain.audits import AuditsReader, BatchState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.pay import pay_of
from sapo_verifier.schedule import STAGE_2_FACTOR

NODES = 9
ROUND = 1


class Chain:
    """Nine nodes on Anvil; all transactions of a phase are in one block."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.reader: ChainReader = network.reader()
        self.w3 = network.chain.w3
        self.nodes = [str(address).lower() for address in self.w3.eth.accounts[1 : NODES + 1]]
        network.chain.rpc("evm_setAutomine", False)

    def enter(self, round_: int) -> bytes:
        """Into the round, with its beacon captured."""
        self.network.mine_to_round(round_)
        self.network.chain.mine()
        self.send([(self.nodes[0], Call("rounds", "poke"), 0)])
        found = self.reader.beacon(round_)
        assert found is not None
        return found

    def send(self, calls: list[tuple[str, Call, int]]) -> None:
        hashes = []
        for sender, call, value in calls:
            target = self.w3.to_checksum_address(self.reader.address_of(call.contract))
            request: Any = {"from": self.w3.to_checksum_address(sender), "to": target, "data": call.encode()}
            hashes.append(self.w3.eth.send_transaction(request | {"gas": 2_000_000, "value": value}))
        self.network.chain.mine()
        for (sender, call, _), hash_ in zip(calls, hashes, strict=True):
            if self.w3.eth.get_transaction_receipt(hash_)["status"] != 1:
                self.reader.call(call, sender=sender)  # says why
                raise AssertionError(f"{call.function} of {sender} failed")

    def works(self, sender: str, call: Call) -> bool:
        target = self.w3.to_checksum_address(self.reader.address_of(call.contract))
        request: Any = {"from": self.w3.to_checksum_address(sender), "to": target, "data": call.encode()}
        answer = self.w3.provider.make_request("eth_call", [request | {"data": "0x" + call.encode().hex()}, "latest"])
        return "error" not in answer

    def ballots(
        self, stage: int, beacon: bytes, verdict: Callable[[int, int], int], own: list[int], count: int
    ) -> Ballots:
        """The windows, by the simulation, and what everybody says."""
        starts = np.array([protocol.permuted(beacon, stage, at, count) if at < count else 0 for at in own])
        size = self.network.spec.chain.draws * (1 if stage == 1 else STAGE_2_FACTOR)
        positions, counted = r.windows(starts, count, np.array(own), size)
        counted &= (np.array(own) < count)[:, None]  # who has no batch has no verdicts
        said = [[verdict(voter, int(p)) for p in positions[voter]] for voter in range(NODES)]
        return Ballots(positions, np.array(said), counted)

    def commit(self, stage: int, beacon: bytes, ballots: Ballots, silent: set[int]) -> list[tuple[str, Call, int]]:
        """Commits, and returns the calls that reveal."""
        reveals, commits = [], []
        acc = self.reader.round_at(ROUND).acc
        salt = b"\1" * 32
        for voter, node in enumerate(self.nodes):
            counted = ballots.counted[voter]
            if not counted.any():
                continue
            kept = [int(v) for v in ballots.verdicts[voter][counted]]
            word = sum(v << (2 * j) for j, v in enumerate(kept))
            hash_ = protocol.verdicts_hash(beacon, acc, node, stage, word, b"\2" * 32, b"", salt)
            commits.append((node, Call("audits", "commitVerdicts", (node, ROUND, stage, beacon, acc, hash_)), 0))
            if voter not in silent:
                args = (node, ROUND, stage, word, b"\2" * 32, b"", salt)
                reveals.append((node, Call("audits", "revealVerdicts", args), 0))
        self.send(commits)
        return reveals


@pytest.mark.parametrize("seed", range(2))
def test_a_random_round_ends_as_on_chain(seed: int):
    rng = random.Random(seed)
    spec = small_spec()
    with anvil() as process:
        network = deploy_on(process, spec)
        try:
            _play_and_compare(Chain(network), rng)
        finally:
            network.close()


def _play_and_compare(chain: Chain, rng: random.Random) -> None:
    spec = chain.network.spec
    bond = int(spec.chain.bond, 16)
    endpoint = "/ip4/10.0.0.1/tcp/80/http"
    chain.network.mine_to_round(0)
    chain.send([(node, Call("nodes", "register", (node, endpoint)), bond) for node in chain.nodes])
    producers = rng.sample(range(NODES), NODES - 1)  # one node has no batch
    count = len(producers)
    chain.send(
        [(chain.nodes[i], Call("rounds", "commitPolicy", (chain.nodes[i], ROUND, b"\3" * 32, 2)), 0) for i in producers]
    )
    beacon = chain.enter(ROUND)
    claims = {i: rng.getrandbits(8) | 1 for i in producers}
    for i in producers:  # one by one: their order is their position
        args = (chain.nodes[i], ROUND, beacon, b"\4" * 32, b"\5" * 32, claims[i])
        chain.send([(chain.nodes[i], Call("rounds", "submit", args), 0)])
    own = [producers.index(i) if i in producers else count for i in range(NODES)]
    first = chain.reader.round_at(ROUND).first

    # Moods from unanimous to torn, so that all outcomes come up.
    moods = [rng.choice(([1], [1], [1] * 5 + [0], [2], [2] * 5 + [1], [1] * 6 + [3], [1, 2])) for _ in range(count)]

    def verdict(_: int, position: int) -> int:
        return rng.choice(moods[position])

    silent = {rng.choice(producers)}
    beacon = chain.enter(ROUND + 1)
    one = chain.ballots(1, beacon, verdict, own, count)
    reveals = chain.commit(1, beacon, one, silent)
    one.counted[list(silent)] = False
    chain.enter(ROUND + 2)
    chain.send(reveals)
    chain.enter(ROUND + 3)
    rules = Rules(draws=spec.chain.draws, min_accepts=spec.chain.min_accepts, min_rejects=spec.chain.min_rejects)
    standing = r.accepted_in_stage_1(one.tally(count), rules)
    # Each of these for itself; some of the others for what its node said of a batch that it accepted.
    disputed = {p: p for p in range(count) if standing[p] and rng.random() < 0.3}
    for p in range(count):
        voter = own.index(p)
        accepts = one.positions[voter][one.counted[voter] & (one.verdicts[voter] == r.ACCEPT)]
        if p not in disputed and len(accepts) and rng.random() < 0.6:
            disputed[p] = int(rng.choice(accepts.tolist()))
    dispute_bond = int(spec.chain.dispute_bond, 16)
    calls = {p: Call("disputes", "dispute", (first + p, first + about)) for p, about in disputed.items()}
    chain.send([(chain.nodes[0], call, dispute_bond) for call in calls.values()])
    # Who did not reveal has to settle and top up before it can vote again.
    late = [chain.nodes[i] for i in silent]
    chain.send([(node, Call("disputes", "settle", (node, ROUND, 2**256 - 1)), 0) for node in late])
    chain.send([(node, Call("nodes", "topUp", (node,)), int(spec.chain.missed_reveal_fee, 16)) for node in late])

    itself = ~standing
    itself[[p for p, about in disputed.items() if about == p]] = True
    in_stage_2 = ~standing
    in_stage_2[list(disputed)] = True
    beacon = chain.enter(ROUND + 4)
    two = chain.ballots(2, beacon, lambda v, p: verdict(v, p) if in_stage_2[p] else 0, own, count)
    reveals = chain.commit(2, beacon, two, set())
    two.counted &= in_stage_2[two.positions]
    chain.enter(ROUND + 5)
    chain.send(reveals)
    chain.enter(ROUND + 6)

    cases = r.Cases(standing, in_stage_2, itself, np.zeros(count, dtype=np.bool_))
    judged = r.judge(one, two, cases, rules)
    votes_1, votes_2 = one.tally(count), two.tally(count)
    for p in range(count):
        _, outcome, _, disputed_or_so, *shown, _ = chain.reader.call(Call("audits", "outcomeOf", (first + p,)))
        assert (outcome, disputed_or_so) == (judged.ends[p], in_stage_2[p])
        for counts, mine in zip(shown, (votes_1[p], votes_2[p]), strict=True):
            assert counts == (*mine[1:], mine.sum())
    _compare_money(chain, producers, claims, own, first, judged, disputed)
    _an_auditor_works_out_the_same_pay(chain)


def _an_auditor_works_out_the_same_pay(chain: Chain) -> None:
    """From the spec, the claims, the ends and what was revealed, without the contract's sums."""
    batches = chain.reader.batches_of(ROUND)
    outcomes = AuditsReader(chain.reader).outcomes_of([batch.index for batch in batches])
    found = pay_of(chain.reader, ROUND, batches, outcomes, chain.reader.block_number())
    assert [pay.differs for pay in found.pays] == [""] * len(batches)
    assert (found.claimed, found.paid_verdicts, True) == chain.reader.call(Call("audits", "roundTotals", (ROUND,)))
    assert sum(pay.total for pay in found.pays) > 0
    for batch, outcome in zip(batches, outcomes, strict=True):
        void = why_void(outcome, chain.network.spec.chain, len(batches), None)
        assert bool(void) == (outcome.state is BatchState.VOID), batch


def _compare_money(
    chain: Chain,
    producers: list[int],
    claims: dict[int, int],
    own: list[int],
    first: int,
    judged: r.Judged,
    disputed: dict[int, int],
) -> None:
    count = len(producers)
    units = np.array([claims[i].bit_count() if i in claims else 0 for i in range(NODES)])
    has_batch = np.array([position < count for position in own])
    accepted = np.array([position < count and judged.ends[position] == r.ENDS_ACCEPTED for position in own])
    totals = chain.reader.call(Call("audits", "roundTotals", (ROUND,)))
    claims = np.array([position < count and bool(judged.claims[position]) for position in own])
    assert totals == (units[claims].sum(), judged.right[has_batch].sum(), True)

    token = 10**18
    money = chain.network.spec.chain
    paying = Rules(
        pool=int(money.initial_pool, 16) / token,
        auditors_share=money.auditors_share / 10_000,
        max_per_unit=int(money.max_per_unit, 16) / token,
        max_per_verdict=int(money.max_per_verdict, 16) / token,
    )
    producer, auditor = r.pay(units, claims, judged.right, has_batch, accepted, paying)
    for i, node in enumerate(chain.nodes):
        _, _, as_producer, as_auditor, *_ = chain.reader.call(Call("rewards", "payoutOf", (node, ROUND)))
        assert as_producer / token == pytest.approx(producer[i], rel=1e-9)
        assert as_auditor / token == pytest.approx(auditor[i], rel=1e-9)
        batches = [first + p for p in range(count) if p != own[i]]
        punished = sum(chain.works(node, Call("disputes", "settle", (node, ROUND, batch))) for batch in batches)
        assert (punished > 0) == (judged.wrong[i] > 0)
        assert punished <= judged.wrong[i] <= 2 * punished  # one call settles both stages
        if own[i] < count:  # a rejected batch costs the bond, one that nobody could look at a fee
            owes = judged.ends[own[i]] == r.ENDS_REJECTED or judged.fee[own[i]]
            assert chain.works(node, Call("disputes", "settle", (node, ROUND, first + own[i]))) == owes
    for p, about in disputed.items():
        assert chain.reader.call(Call("disputes", "disputeOf", (first + p, first + about))) == (chain.nodes[0], True)
