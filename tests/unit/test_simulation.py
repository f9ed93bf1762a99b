"""The simulation's rules are the contract's: windows, stages, outcomes, penalties, pay."""

import random
import subprocess
from collections.abc import Callable
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.networks import Network, deploy_on, small_spec
from sapo_lab.simulation import rules as r
from sapo_lab.simulation.choices import Rules, Strategy
from sapo_lab.simulation.commands import main
from sapo_lab.simulation.exact import binomial, fate
from sapo_lab.simulation.rounds import Played, play_many
from sapo_lab.simulation.rules import Ballots
from sapo_lab.simulation.strategies import Truth, swarm
from sapo_verifier import protocol
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.schedule import STAGE_2_FACTOR

SEED = 20250908


def played(nodes: int, bad: int, strategy: Strategy, rounds: int = 20, **changes: Any) -> tuple[Played, Any]:
    """Rounds, and which of their entries are of the `bad` nodes."""
    made = play_many(swarm(nodes, bad, strategy), Rules(**changes), np.random.default_rng(SEED), rounds)
    return made, np.tile(np.arange(nodes) < bad, rounds)


# --- against the protocol and a transcription of Tallies.sol ---------------------------------------------------------


def test_windows_are_the_protocols():
    rng = random.Random(SEED)
    for _ in range(300):
        count, size = rng.randrange(1, 40), rng.choice((1, 4, 8, 32))
        own = [rng.choice((None, rng.randrange(count))) for _ in range(5)]
        starts = [rng.randrange(count) for _ in own]
        positions, counted = r.windows(
            np.array(starts), count, np.array([count if o is None else o for o in own]), size
        )
        for voter, (start, mine) in enumerate(zip(starts, own, strict=True)):
            assert positions[voter][counted[voter]].tolist() == protocol.window(start, count, mine, size)


def tallies_outcome(
    one: list[int], two: list[int], disputed: bool, proven: bool, rules: Rules
) -> tuple[bool, int, int]:
    """Tallies.sol, line by line, for one batch: whether it is in stage 2, its outcome, accepts of its last stage."""

    def carried(votes: list[int], verdict: int, least: int) -> bool:
        return votes[verdict] >= least and votes[verdict] * 3 >= sum(votes) * 2

    accepted_in_stage_1 = one[2] == 0 and one[3] == 0 and carried(one, 1, rules.min_accepts)
    in_stage_2 = disputed or not accepted_in_stage_1
    votes = two if in_stage_2 else one
    if proven:
        outcome = 3
    elif not in_stage_2 or carried(votes, 1, rules.min_accepts):
        outcome = 1
    elif carried(votes, 2, rules.min_rejects):
        outcome = 2
    else:
        outcome = 0
    return in_stage_2, outcome, votes[1]


def test_every_small_tally_ends_as_in_the_contract():
    rules = Rules(min_rejects=3)
    cases = [
        ([*one], [*two], disputed, proven)
        for one in product(range(2), range(4), range(2), range(2))
        for two in product(range(2), range(7), range(7), range(2))
        for disputed, proven in product((False, True), repeat=2)
    ]
    votes_1, votes_2 = np.array([c[0] for c in cases]), np.array([c[1] for c in cases])
    disputed, proven = np.array([c[2] for c in cases]), np.array([c[3] for c in cases])
    in_stage_2 = ~r.accepted_in_stage_1(votes_1, rules) | disputed
    ends = r.outcomes(votes_2, in_stage_2, proven, rules)
    accepts = np.where(in_stage_2, votes_2[:, 1], votes_1[:, 1])
    for i, case in enumerate(cases):
        expected = tallies_outcome(*case, rules)
        assert (in_stage_2[i], ends[i], accepts[i]) == expected
        for verdict in range(4):
            unjust = verdict == 2 and expected[1] == 1 and expected[2] >= 5
            assert r.punished(np.array(verdict), ends[i], accepts[i]) == (
                unjust or (verdict == 1 and expected[1] in (2, 3))
            )


# --- against the contracts -------------------------------------------------------------------------------------------

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
        starts = np.array([protocol.draw_start(beacon, node, stage, count) for node in self.nodes])
        size = self.network.spec.chain.draws * (1 if stage == 1 else STAGE_2_FACTOR)
        positions, counted = r.windows(starts, count, np.array(own), size)
        said = [[verdict(voter, int(p)) for p in positions[voter]] for voter in range(NODES)]
        return Ballots(positions, np.array(said), counted)

    def commit(self, stage: int, beacon: bytes, ballots: Ballots, silent: set[int]) -> list[tuple[str, Call, int]]:
        """Commits, and returns the calls that reveal."""
        reveals, commits = [], []
        acc = self.reader.round_at(ROUND).acc
        salt = b"\1" * 32
        for voter, node in enumerate(self.nodes):
            counted = ballots.counted[voter]
            kept = [int(v) for v in ballots.verdicts[voter][counted]]
            word = sum(v << (2 * j) for j, v in enumerate(kept))
            hash_ = protocol.verdicts_hash(beacon, acc, node, stage, word, b"\2" * 32, salt)
            commits.append((node, Call("audits", "commitVerdicts", (node, ROUND, stage, hash_)), 0))
            if voter not in silent:
                args = (node, ROUND, stage, word, b"\2" * 32, salt)
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

    silent = {rng.randrange(NODES)}
    beacon = chain.enter(ROUND + 1)
    one = chain.ballots(1, beacon, verdict, own, count)
    reveals = chain.commit(1, beacon, one, silent)
    one.counted[list(silent)] = False
    chain.enter(ROUND + 2)
    chain.send(reveals)
    chain.enter(ROUND + 3)
    rules = Rules(draws=spec.chain.draws, min_accepts=spec.chain.min_accepts, min_rejects=spec.chain.min_rejects)
    standing = r.accepted_in_stage_1(one.tally(count), rules)
    disputed = [p for p in range(count) if standing[p] and rng.random() < 0.4]
    dispute_bond = int(spec.chain.dispute_bond, 16)
    chain.send([(chain.nodes[0], Call("audits", "dispute", (first + p,)), dispute_bond) for p in disputed])
    # Who did not reveal has to settle and top up before it can vote again.
    late = [chain.nodes[i] for i in silent]
    chain.send([(node, Call("audits", "settle", (node, ROUND, 2**256 - 1)), 0) for node in late])
    chain.send([(node, Call("nodes", "topUp", (node,)), int(spec.chain.missed_reveal_fee, 16)) for node in late])

    in_stage_2 = ~standing
    in_stage_2[disputed] = True
    beacon = chain.enter(ROUND + 4)
    two = chain.ballots(2, beacon, lambda v, p: verdict(v, p) if in_stage_2[p] else 0, own, count)
    reveals = chain.commit(2, beacon, two, set())
    two.counted &= in_stage_2[two.positions]
    chain.enter(ROUND + 5)
    chain.send(reveals)
    chain.enter(ROUND + 6)

    judged = r.judge(one, two, in_stage_2, np.zeros(count, dtype=np.bool_), rules)
    votes_1, votes_2 = one.tally(count), two.tally(count)
    for p in range(count):
        _, outcome, _, disputed_or_so, *shown, _ = chain.reader.call(Call("audits", "outcomeOf", (first + p,)))
        assert (outcome, disputed_or_so) == (judged.ends[p], in_stage_2[p])
        for counts, mine in zip(shown, (votes_1[p], votes_2[p]), strict=True):
            assert counts == (*mine[1:], mine.sum())
    _compare_money(chain, producers, claims, own, first, judged, rules)


def _compare_money(
    chain: Chain,
    producers: list[int],
    claims: dict[int, int],
    own: list[int],
    first: int,
    judged: r.Judged,
    rules: Rules,
) -> None:
    count = len(producers)
    units = np.array([claims[i].bit_count() if i in claims else 0 for i in range(NODES)])
    has_batch = np.array([position < count for position in own])
    accepted = np.array([position < count and judged.ends[position] == r.ENDS_ACCEPTED for position in own])
    totals = chain.reader.call(Call("audits", "roundTotals", (ROUND,)))
    assert totals == (units[accepted].sum(), judged.right[has_batch].sum(), True)

    token = 10**18
    money = chain.network.spec.chain
    paying = Rules(
        pool=int(money.initial_pool, 16) / token,
        auditors_share=money.auditors_share / 10_000,
        max_per_unit=int(money.max_per_unit, 16) / token,
    )
    producer, auditor = r.pay(units, judged.right, has_batch, accepted, paying)
    for i, node in enumerate(chain.nodes):
        _, _, as_producer, as_auditor, *_ = chain.reader.call(Call("rewards", "payoutOf", (node, ROUND)))
        assert as_producer / token == pytest.approx(producer[i], rel=1e-9)
        assert as_auditor / token == pytest.approx(auditor[i], rel=1e-9)
        # The own rejected batch can be settled too: that is the slash.
        batches = [first + p for p in range(count) if p != own[i]]
        punished = sum(chain.works(node, Call("audits", "settle", (node, ROUND, batch))) for batch in batches)
        assert (punished > 0) == (judged.wrong[i] > 0)
        assert punished <= judged.wrong[i] <= 2 * punished  # one call settles both stages


# --- what the economics rest on --------------------------------------------------------------------------------------


def test_the_defaults_are_the_devnets(monkeypatch):
    from sapo_verifier import networks

    monkeypatch.setattr(networks, "base_rule", lambda *_, **__: small_spec().bases[0])
    spec = networks.pocket_spec(Path())
    bond, token = int(spec.chain.bond, 16), 10**18
    expected = {
        "draws": spec.chain.draws,
        "min_accepts": spec.chain.min_accepts,
        "min_rejects": 8,  # docs/protocol.md; fewer on a devnet
        "completions": spec.max_slots * spec.group_size,
        "auditors_share": spec.chain.auditors_share / 10_000,
        "pool": int(spec.chain.initial_pool, 16) / token,
        "max_per_unit": int(spec.chain.max_per_unit, 16) / token,
    }
    taken = ("dispute_bond", "missed_batch_fee", "missed_reveal_fee", "wrong_verdict_penalty")
    expected |= {name: int(getattr(spec.chain, name), 16) / bond for name in taken}
    assert {f.name: getattr(Rules(), f.name) for f in fields(Rules)} == expected


@pytest.mark.parametrize("nodes", [3, 5, 10, 200])
def test_honest_networks_pay_everybody(nodes):
    made, _ = played(nodes, 0, Strategy.HONEST, max_per_unit=1e9)
    assert np.mean(made.ends == r.ENDS_ACCEPTED) == 1
    assert not made.slashed.any()
    assert made.fees.sum() == 0
    assert (made.producer + made.auditor).sum() == pytest.approx(20 * Rules.pool)


def test_windows_cover_every_batch_draws_times_on_average():
    made, _ = played(500, 0, Strategy.HONEST)
    assert made.seen.mean() == pytest.approx(Rules.draws)
    assert np.mean(made.seen == 0) == pytest.approx(binomial(499, 8 / 499)[0], rel=0.5)


@pytest.mark.parametrize("share", [0.2, 0.34])
def test_exact_and_played_agree(share):
    nodes, bad = 400, round(400 * share)
    made, theirs = played(nodes, bad, Strategy.CARTEL, rounds=60)
    honest, false = fate(nodes - 1 - bad, bad, nodes, Rules()), fate(bad - 1, nodes - bad, nodes, Rules())
    assert np.mean(made.ends[~theirs] == r.ENDS_ACCEPTED) == pytest.approx(honest.accepted, abs=0.04)
    assert np.mean(made.slashed[theirs]) == pytest.approx(false.rejected, abs=0.04)


@pytest.mark.parametrize(
    "strategy",
    [Strategy.FALSE, Strategy.PROVABLE, Strategy.WITHHOLDER, Strategy.DISPUTER, Strategy.LIAR, Strategy.SILENT],
)
def test_alone_it_does_not_pay(strategy):
    made, theirs = played(300, 3, strategy)
    pay = made.producer + made.auditor
    lost = np.where(made.slashed, 1.0, made.fees)
    assert pay[theirs].mean() < 1.02 * pay[~theirs].mean()
    assert lost[~theirs].sum() == 0
    assert (lost[theirs] > 0).all() or strategy is Strategy.WITHHOLDER
    if strategy in (Strategy.FALSE, Strategy.PROVABLE, Strategy.WITHHOLDER):
        assert pay[theirs].sum() == 0


def test_silence_is_not_the_cheap_way_out():
    """Who sees that it was wrong and does not reveal loses about what it would lose by revealing, but for a low fee."""

    def lost(strategy: Strategy, fee: float) -> float:
        who = swarm(500, 50, strategy, also=[(Strategy.FALSE, 5)])
        made = play_many(who, Rules(missed_reveal_fee=fee), np.random.default_rng(SEED), 20)
        theirs = np.tile(who.strategy == strategy, 20)
        assert made.fees[np.tile(who.strategy == Strategy.HONEST, 20)].sum() == 0
        return float(made.fees[theirs].mean())

    lazy = lost(Strategy.LAZY, Rules.missed_reveal_fee)
    assert 0.8 * lazy < lost(Strategy.DODGER, Rules.missed_reveal_fee) < lazy
    assert lost(Strategy.DODGER, 0.4 * Rules.wrong_verdict_penalty) < 0.5 * lazy


def test_a_prover_gets_a_quarter():
    made, theirs = played(50, 1, Strategy.PROVABLE)
    assert (made.ends[theirs] == r.ENDS_PROVEN_FALSE).all()
    assert made.won.sum() == pytest.approx(20 * r.PROVERS_SHARE)


def test_small_networks_only_void():
    made, theirs = played(5, 2, Strategy.CARTEL)
    assert (made.truth[theirs] == Truth.FALSE).all()
    assert (made.ends == r.ENDS_VOID).all()


def test_the_command_is_the_same_for_a_seed_and_quick(capsys):
    arguments = ["--nodes", "2000", "--malicious", "20", "--rounds", "2", "--seed", "7"]
    assert main(arguments) == 0
    once = capsys.readouterr().out
    assert main(arguments) == 0
    assert capsys.readouterr().out == once
    assert "cartel" in once


def test_the_script_runs_and_refuses_nonsense():
    script = str(ROOT / "scripts" / "simulate")
    run = subprocess.run([script, "--nodes", "50", "--rounds", "1"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    run = subprocess.run([script, "--nodes", "1"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "2 to" in run.stderr


def test_the_page_shows_what_the_exact_commands_print(capsys):
    page = (ROOT / "docs" / "economics.md").read_text(encoding="utf-8")
    for what in ("thresholds", "convictions", "detection", "choices"):
        main([what])
        assert capsys.readouterr().out.strip() in page, f"docs/economics.md: paste `scripts/simulate {what}` again"
