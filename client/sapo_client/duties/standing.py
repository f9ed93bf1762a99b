"""What the chain says of a node, for `sapo status`: read piece by piece, so that an RPC that stops in between leaves
what was read, and judged by `health`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sapo_client.duties import pay
from sapo_client.duties.claiming import unclaimed
from sapo_client.duties.debts import debts_of
from sapo_client.duties.health.ipfs import probe
from sapo_client.duties.health.judged import OwnBatch, batch_reasons, reached, reached_reasons
from sapo_client.duties.health.membership import LATE_PART, Member, Unrevealed, member_reasons
from sapo_client.duties.health.money import Money, gas_of_a_round, money_reasons, rounds_left, runway, tip_of
from sapo_client.duties.health.rounds import Played, round_reasons
from sapo_client.duties.health.votes import own_batches, read_reports, told, with_votes
from sapo_client.duties.leaving import withdrawal
from sapo_client.state.requests import Pause
from sapo_verifier.chain import rpc
from sapo_verifier.chain.audits import AuditsReader, BallotState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import ChainReader, NodeInfo, NodeState
from sapo_verifier.chain.signing import base_fee
from sapo_verifier.schedule import FINAL_AFTER, MOST_CLAIMS, REVEAL_AFTER

LAST_ROUNDS = 10  # of which the own batches are shown
PROBE_SECONDS = 3.0


@dataclass(frozen=True)
class Asked:
    """Of which node, and what is known of it already. endpoint: where it serves; probe_url: somebody else's gateway."""

    node: str
    outbox: Path
    endpoint: str
    fee_cap: int
    gas_rounds: int
    allow_private: bool
    last_round: int | None
    probe_url: str | None
    playing: int
    done: int
    reports: Sequence[Mapping[str, Any]]
    pause: Pause | None = None  # the last one
    leaves: bool = False  # an exit was asked for here


@dataclass
class Told:
    """What was read so far. reasons: what is wrong, by subject, as far as it was looked at."""

    facts: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)  # the same for programs: wei, units of the token, blocks
    reasons: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Standing:
    """One look at the chain. Everything raises ChainError, and what was told before stays."""

    reader: ChainReader
    asked: Asked
    told: Told

    def look(self) -> None:
        """All of it, the most important first."""
        told, asked, audits = self.told, self.asked, AuditsReader(self.reader)
        head, current = self.reader.block_number(), self.reader.current_round()
        told.facts["chain_round"] = current
        told.numbers["blocks_left"] = max(0, self.reader.first_block_of(current + 1) - head)
        info = self.reader.node_of(asked.node)
        self._membership(audits, info, head, current)
        self._money(info)
        paused = asked.pause is not None and asked.pause.covers(current)
        if asked.pause is not None and paused:
            told.facts["paused"] = f"until round {asked.pause.until}: it promises nothing new"
        last = asked.last_round
        publishes = info.state is NodeState.REGISTERED and (last is None or current <= last) and not paused
        told.reasons["rounds"] = round_reasons(Played(current, asked.playing, asked.done, asked.reports, publishes))
        self._batches(audits, info, head, current)

    def _membership(self, audits: AuditsReader, info: NodeInfo, head: int, current: int) -> None:
        bond = int(self.reader.deployment.spec.chain.bond, 16)
        self.told.facts |= {
            "state": info.state.value,
            "bond": f"{coins(info.bond)} of {coins(bond)}",
            "endpoint": info.endpoint,
        }
        self.told.numbers |= {"bond": info.bond, "bond_asked": bond}
        if info.state is NodeState.EXITING:
            self.told.facts["exit"] = withdrawal(self.reader, info.exit_block)
        debts = debts_of(self.reader, audits, self.asked.node, current)
        self.told.facts["debts"] = {debt.round: coins(debt.fee) for debt in debts}
        unrevealed = self._unrevealed(head, current)
        self.told.reasons["membership"] = member_reasons(
            Member(info, bond, self.asked.endpoint, debts, unrevealed, self.asked.leaves)
        )

    def _unrevealed(self, head: int, current: int) -> list[Unrevealed]:
        """Verdicts of the last rounds that are overdue, or due in this round, most of which is over."""
        asked = [(r, stage) for r in range(max(0, current - LAST_ROUNDS), current) for stage in REVEAL_AFTER]
        answers = self.reader.call_many(
            [Call("audits", "verdictsOf", (self.asked.node, r, stage)) for r, stage in asked]
        )
        blocks = self.reader.deployment.spec.chain.round_blocks
        is_late = head - self.reader.first_block_of(current) > LATE_PART * blocks
        found = []
        for (round_, stage), (ballot, *_) in zip(asked, answers, strict=True):
            due = round_ + REVEAL_AFTER[stage]
            if list(BallotState)[ballot] is BallotState.COMMITTED and (current > due or (current == due and is_late)):
                found.append(Unrevealed(round_, stage, current > due, self.reader.first_block_of(due + 1) - 1))
        return found

    def _money(self, info: NodeInfo) -> None:
        asked, chain = self.asked, self.reader.deployment.spec.chain
        with rpc.transport(self.reader.rpc_url):
            fee = base_fee(self.reader.w3)
        gas = gas_of_a_round(asked.outbox, self.reader.deployment.first_block, chain.round_blocks)
        held, price = self.reader.balance(info.operator), fee + tip_of(asked.outbox)
        money = Money(info.operator, held, gas, price, asked.gas_rounds, fee, asked.fee_cap)
        self.told.facts |= {"balance": coins(held), "gas_lasts": rounds_left(money)}
        self.told.numbers |= {"balance": held, "gas_of_a_round": gas, "gas_price": price, "runway": runway(money)}
        # Who is not registered has no operator, and no rounds to pay for.
        self.told.reasons["money"] = money_reasons(money) if info.state is NodeState.REGISTERED else []

    def _batches(self, audits: AuditsReader, info: NodeInfo, head: int, current: int) -> None:
        """How the own batches fared, what others said of them, and what the rounds paid."""
        asked, told = self.asked, self.told
        rounds = range(max(0, current - FINAL_AFTER - pay.LAST_ROUNDS), current + 1)
        batches = own_batches(self.reader, audits, asked.node, rounds)
        answers = self.reader.call_many([Call("rounds", "policyOf", (asked.node, r)) for r in (*rounds, current + 1)])
        policies = {r: digest for r, (digest, slots) in zip((*rounds, current + 1), answers, strict=True) if slots}
        told.facts["batches"] = _by_state(batches, policies, current)
        final = current - FINAL_AFTER
        ready = unclaimed(audits, asked.node, range(max(0, final - MOST_CLAIMS + 1), final + 1))
        recent = [batch.outcome for batch in _recent(batches, current)]
        received = [votes for outcome in recent for votes in (outcome.stage_1, outcome.stage_2)]
        told.numbers |= {
            "pay_ready": sum(each.amount for each in ready),
            "tokens": int(self.reader.call(Call("token", "balanceOf", (asked.node,)))),
            "received": {
                "accept": sum(votes.accepts for votes in received),
                "reject": sum(votes.rejects for votes in received),
                "void": sum(votes.voids for votes in received),
            },
            "pay_open": sum(not batch.outcome.is_final for batch in batches),
        }
        told.facts["rewards_ready"] = f"{coins(sum(each.amount for each in ready))} of {len(ready)} rounds"
        batches = self._judged(batches, head, current)
        self._reached(batches, policies[max(policies)] if policies else None, info, current)
        skipped = {report["round"]: str(report.get("skipped") or "") for report in asked.reports}
        paid = pay.last_rounds(
            self.reader, audits, asked.node, current, batches, registered_block=info.registered_block, skipped=skipped
        )
        rules = self.reader.deployment.spec.chain
        told.numbers["pay"] = {each.pay.round: each.pay.amount for each in paid}
        told.facts["pay"] = {each.pay.round: pay.pay_in_words(each, rules) for each in paid}

    def _judged(self, batches: list[OwnBatch], head: int, current: int) -> list[OwnBatch]:
        """With what was said against them: by whom first, and why once the voters' reports are here."""
        batches, votes = with_votes(self.reader, batches, head)
        self.told.reasons["batches"] = batch_reasons(_recent(batches, current))
        if votes:
            infos = self.reader.nodes_of(sorted({vote.voter for vote in votes}))
            endpoints = {info.node: info.endpoint for info in infos}
            batches = told(batches, read_reports(votes, endpoints, allow_private=self.asked.allow_private))
            self.told.reasons["batches"] = batch_reasons(_recent(batches, current))
        return batches

    def _reached(self, batches: Sequence[OwnBatch], policy: bytes | None, info: NodeInfo, current: int) -> None:
        is_reached, words = reached(_recent(batches, current), current)
        if self.asked.probe_url is not None and policy is not None:
            is_reached, words = probe(self.asked.probe_url, policy, info.endpoint, PROBE_SECONDS)
        self.told.facts["reached"] = words
        self.told.reasons["reached"] = reached_reasons(is_reached, words, alone=self.asked.allow_private)


def _recent(batches: Sequence[OwnBatch], current: int) -> list[OwnBatch]:
    return [batch for batch in batches if batch.round > current - LAST_ROUNDS]


def _by_state(batches: Sequence[OwnBatch], policies: Mapping[int, bytes], current: int) -> dict[str, int]:
    """How many own batches of the last rounds are in which state; `missed`: committed for, not submitted."""
    states = [batch.outcome.state.value for batch in _recent(batches, current)]
    held = {batch.round for batch in batches}
    # Without the round that goes on.
    states += ["missed" for r in policies if current - LAST_ROUNDS < r < current and r not in held]
    return {state: states.count(state) for state in sorted(set(states))}
