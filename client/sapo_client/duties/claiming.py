"""The pay of rounds that are final, pulled for a node that is not running. A running one does so itself."""

from collections.abc import Sequence
from typing import Any

from sapo_client.duties.actor import Actor
from sapo_client.duties.debts import debts_of, taken_by, would_pass
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.turns import put_once
from sapo_verifier.chain.audits import AuditsReader, Payout
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import SapoError, UnableError
from sapo_verifier.schedule import FINAL_AFTER, MOST_CLAIMS

LOOK_BACK = 5000  # rounds that are searched without --since: 100 HTTP requests
WAIT_SECONDS = 300.0  # for one transaction to be mined


def claim_all(reader: ChainReader, outbox: Outbox, node: str, since: int | None) -> dict[str, Any]:
    """Settles what is overdue and pulls all final pay; what was done, amounts in the smallest unit.

    since: the first round to search; None: as `first_round` says. Raises SapoError for what is not mined.
    """
    audits = AuditsReader(reader)
    current = reader.current_round()
    first = first_round(reader, node, current, since)
    ready = unclaimed(audits, node, range(first, current - FINAL_AFTER + 1))
    # With something overdue the contract pays nothing.
    settled = settle_debts(reader, outbox, node) if ready else []
    for at in range(0, len(ready), MOST_CLAIMS):
        part = ready[at : at + MOST_CLAIMS]
        _finish(outbox, f"claim/{','.join(str(pay.round) for pay in part)}", claim_call(node, part))
    return {
        "node": node,
        "searched_from": first,
        "settled": settled,
        "rounds": [{"round": pay.round, "producer": pay.producer, "auditor": pay.auditor} for pay in ready],
        "total": sum(pay.amount for pay in ready),
    }


def settle_debts(reader: ChainReader, outbox: Outbox, node: str) -> list[dict[str, int]]:
    """Has all that is overdue settled; each round, and the wei that it took from the bond. Raises as claim_all does."""
    current = reader.current_round()
    debts = debts_of(reader, AuditsReader(reader), node, current)
    keys = [f"settle/{debt.round}/{current}" for debt in debts]
    return [
        {"round": debt.round, "fee": _settle(reader, outbox, node, key, debt.call)}
        for debt, key in zip(debts, keys, strict=True)
    ]


def first_round(reader: ChainReader, node: str, current: int, since: int | None) -> int:
    """Where to begin to search: in the round in which the node registered, but at most LOOK_BACK rounds ago."""
    if since is not None:
        return since
    chain = reader.deployment.spec.chain
    registered = reader.node_of(node).registered_block - reader.deployment.first_block
    return max(0, registered // chain.round_blocks, current - LOOK_BACK)


def unclaimed(audits: AuditsReader, node: str, rounds: Sequence[int]) -> list[Payout]:
    """Final pay that was not pulled, by round."""
    return [pay for pay in audits.payouts_of(node, rounds) if pay.is_final and pay.amount and not pay.claimed]


def claim_final(actor: Actor, final: int) -> None:
    """Have a running node's pay pulled up to round `final`, also of rounds in which it was not running: as many as one
    transaction takes. Nothing where something is overdue: the contract pays nothing then."""
    ready = unclaimed(actor.audits, actor.node, range(max(0, final - MOST_CLAIMS + 1), final + 1))
    if ready and actor.audits.is_settled(actor.node):
        put_once(actor.outbox, f"claim/{final}", claim_call(actor.node, ready))


def claim_call(node: str, pays: Sequence[Payout]) -> Call:
    """At most MOST_CLAIMS of them."""
    return Call("rewards", "claimMany", (node, tuple(pay.round for pay in pays)))


def _settle(reader: ChainReader, outbox: Outbox, node: str, key: str, call: Call) -> int:
    """Wei that it took from the bond; 0 where somebody else has settled it first. Raises as `_finish` does."""
    try:
        _finish(outbox, key, call)
    except SapoError:
        if outbox.state(key).status == "failed" and not would_pass(reader, call, node):
            return 0
        raise
    hash_ = outbox.state(key).hash
    return 0 if hash_ is None else taken_by(reader, hash_, node)[0]


def _finish(outbox: Outbox, key: str, call: Call) -> None:
    """Sends a call and waits until it is mined. Raises SapoError if it is not."""
    if outbox.state(key).status in ("failed", "expired"):
        outbox.retry(key)
    outbox.put(key, call)
    state = outbox.wait(key, seconds=WAIT_SECONDS)
    if state.status == "failed":
        raise SapoError(f"{call.function} was not accepted: {state.reason}")
    if state.status != "mined":
        waits = f" ({state.reason})" if state.reason else ""
        raise UnableError(
            f"{call.function} was not mined in {WAIT_SECONDS:.0f} s{waits}; it stays in the outbox: run `sapo claim` "
            "again, or `sapo run`, and it goes on"
        )
