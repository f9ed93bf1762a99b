"""`sapo claim`: pull the pay of rounds that are final, for a node that is not running. A running one does so itself."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sapo_client.duties.actor import Actor
from sapo_client.duties.debts import debts_of
from sapo_client.state import home as layout
from sapo_client.state.settings import Settings
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.turns import put_once
from sapo_verifier import keystore
from sapo_verifier.chain.audits import AuditsReader, Payout
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import SapoError
from sapo_verifier.schedule import FINAL_AFTER, MOST_CLAIMS

LOOK_BACK = 5000  # rounds that are searched without --since: 100 HTTP requests
WAIT_SECONDS = 300.0  # for one transaction to be mined


def claim(home: Path, password_file: Path | None, *, since: int | None, as_json: bool) -> int:
    """Claims everything and prints it. Raises SapoError, with what to do, where it cannot."""
    settings = Settings.load(home)
    if layout.is_held(home):
        raise SapoError(
            f"the node in {home} is running, and claims by itself as soon as a round is final; `sapo status` says what "
            "is ready. Wait, or stop it first"
        )
    with layout.only_one(home):
        account = keystore.load(home / layout.KEYSTORE, keystore.read_password(password_file))
        reader = ChainReader(settings.chain.rpc, Deployment.load(settings.chain.deployment))
        try:
            reader.check()
            node = settings.chain.owner or account.address.lower()
            outbox = Outbox(home / layout.OUTBOX, reader, account)
            try:
                document = _claim(reader, outbox, node, since)
            finally:
                outbox.close()
        finally:
            reader.close()
    print(json.dumps(document, indent=1)) if as_json else _print(document)
    return 0


def _claim(reader: ChainReader, outbox: Outbox, node: str, since: int | None) -> dict[str, Any]:
    audits = AuditsReader(reader)
    current = reader.current_round()
    first = first_round(reader, node, current, since)
    ready = unclaimed(audits, node, range(first, current - FINAL_AFTER + 1))
    settled = debts_of(reader, audits, node, current) if ready else []
    for debt in settled:  # with something overdue the contract pays nothing
        _finish(outbox, f"settle/{debt.round}/{current}", debt.call)
    for at in range(0, len(ready), MOST_CLAIMS):
        part = ready[at : at + MOST_CLAIMS]
        _finish(outbox, f"claim/{','.join(str(pay.round) for pay in part)}", claim_call(node, part))
    return {
        "node": node,
        "searched_from": first,
        "settled": [{"round": debt.round, "fee": debt.fee} for debt in settled],
        "rounds": [{"round": pay.round, "producer": pay.producer, "auditor": pay.auditor} for pay in ready],
        "total": sum(pay.amount for pay in ready),
    }


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
        raise SapoError(
            f"{call.function} was not mined in {WAIT_SECONDS:.0f} s{waits}; it stays in the outbox: run `sapo claim` "
            "again, or `sapo run`, and it goes on"
        )


def _print(document: dict[str, Any]) -> None:
    for debt in document["settled"]:
        print(f"settled what the node missed in round {debt['round']}: {coins(debt['fee'])} coins from its bond")
    for row in document["rounds"]:
        print(f"round {row['round']:6}: producer {coins(row['producer'])}, auditor {coins(row['auditor'])}")
    if document["rounds"]:
        print(f"claimed {coins(document['total'])} tokens for {document['node']}")
    else:
        print(f"nothing to claim: no final and unclaimed pay since round {document['searched_from']}")
