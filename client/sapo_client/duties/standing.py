"""What the chain and the outbox say of a node, for `sapo status`; both are only read."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sapo_client.duties.claiming import unclaimed
from sapo_client.duties.debts import Debt, debts_of
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import ChainReader, NodeInfo, NodeState
from sapo_verifier.schedule import FINAL_AFTER, MOST_CLAIMS

LAST_ROUNDS = 10  # of which the own batches are shown
ROUNDS_BEHIND = 2


def transactions(path: Path) -> dict[str, int]:
    """How many transactions of an outbox are in which state; {} where there is no outbox, or none that can be read."""
    rows = _read(path, "SELECT status, count(*) FROM entry WHERE call IS NOT NULL GROUP BY status")
    return {str(status): int(count) for status, count in sorted(rows)}


def held_up(path: Path) -> dict[str, str]:
    """What every transaction that is not mined yet waits for, by its key, in words; without those that just wait."""
    rows = _read(path, "SELECT key, reason FROM entry WHERE status IN ('intent', 'sent') AND reason != '' ORDER BY id")
    return {str(key): str(reason) for key, reason in rows}


def _read(path: Path, question: str) -> list[Any]:
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=2.0)) as db:
            return db.execute(question).fetchall()
    except sqlite3.Error:  # `sapo run` says what is wrong with it, and what to do
        return []


def chain_facts(reader: ChainReader, facts: dict[str, Any], node: str) -> list[str]:
    """Adds what the chain says to the facts; returns what is wrong with it."""
    current = reader.current_round()
    facts["chain_round"] = current
    audits = AuditsReader(reader)
    info = reader.node_of(node)
    bond = int(reader.deployment.spec.chain.bond, 16)
    facts |= {
        "state": info.state.value,
        "bond": f"{coins(info.bond)} of {coins(bond)}",
        "endpoint": info.endpoint,
        "balance": coins(reader.balance(info.operator)),
        "batches": own_batches(reader, audits, node, range(max(0, current - LAST_ROUNDS + 1), current + 1)),
    }
    final = current - FINAL_AFTER
    ready = unclaimed(audits, node, range(max(0, final - MOST_CLAIMS + 1), final + 1))
    facts["rewards_ready"] = f"{coins(sum(pay.amount for pay in ready))} of {len(ready)} rounds"
    debts = debts_of(reader, audits, node, current)
    facts["debts"] = {debt.round: coins(debt.fee) for debt in debts}
    return _wrong(info, bond, debts, facts["round"], current)


def own_batches(reader: ChainReader, audits: AuditsReader, node: str, rounds: Sequence[int]) -> dict[str, int]:
    """How many of the node's batches of these rounds are in which state; `missed`: committed for, not submitted."""
    held = reader.call_many([Call("rounds", "batchOf", (node, round_)) for round_ in rounds])
    policies = reader.call_many([Call("rounds", "policyOf", (node, round_)) for round_ in rounds])
    outcomes = audits.outcomes_of([index for exists, index in held if exists])
    states = [outcome.state.value for outcome in outcomes]
    pairs = list(zip(held, policies, strict=True))[:-1]  # without the round that goes on
    states += ["missed" for (exists, _), (_, slots) in pairs if slots and not exists]
    return {state: states.count(state) for state in sorted(set(states))}


def _wrong(info: NodeInfo, bond: int, debts: Sequence[Debt], played: Any, current: int) -> list[str]:
    if info.state is NodeState.SLASHED:
        return ["the node was slashed: its bond is gone, and it can take no part again; start over with another key"]
    if info.state is not NodeState.REGISTERED:
        return [f"the chain says that the node is {info.state.value}: it cannot publish"]
    wrong = []
    if info.bond < bond:
        wrong.append(
            f"the bond is short of {coins(bond - info.bond)} coins, so the node can promise nothing; while it runs it "
            f"tops it up by itself if {info.operator} holds enough"
        )
    if debts:
        rounds = ", ".join(str(debt.round) for debt in debts)
        wrong.append(
            f"overdue of round {rounds}: {coins(sum(debt.fee for debt in debts))} coins in fees; while the "
            "node runs it settles that by itself, in its next round"
        )
    if isinstance(played, int) and current - played > ROUNDS_BEHIND:
        wrong.append(f"the node is in round {played}, the chain in round {current}: is this machine too slow?")
    return wrong
