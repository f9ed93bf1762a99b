"""`sapo-verify prove`: what anybody can prove against a batch, shown and, if asked to, sent."""

import argparse
import json
import sys
from typing import Any

from sapo_verifier import keystore
from sapo_verifier.audit import CheckResult
from sapo_verifier.chain.audits import AuditsReader, BatchState
from sapo_verifier.chain.errors import ChainError, ChainUnavailable, coins
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.sending import Receipt, estimate, send
from sapo_verifier.checks import check_batch
from sapo_verifier.commands.tools import Bench, bench, chain_of
from sapo_verifier.errors import ObjectError, SapoError
from sapo_verifier.facts import BatchInfo
from sapo_verifier.proofs import Proof, find_proof
from sapo_verifier.schedule import PROVERS_PART

OPEN = (BatchState.PENDING, BatchState.STANDING, BatchState.DISPUTED)
KINDS = {"proveRecord": "record", "proveLength": "length"}


def prove(options: argparse.Namespace) -> int:
    """Exit status 0 if there is a proof (with --send: if it was mined), 1 if nothing is provable."""
    # What would stop the sending is told before the work.
    account = None
    if options.send:
        if options.keystore is None:
            raise SapoError("--send needs the key that signs: --keystore FILE, and --password-file FILE or a terminal")
        account = keystore.load(options.keystore, keystore.read_password(options.password_file))
    with chain_of(options) as reader, bench(options, reader) as tools:
        batch = reader.batch_at(options.index)
        outcomes, proof = _look(tools, batch)
        if proof is None:
            print(f"sapo-verify: batch {batch.index}: {_why_not(outcomes)}", file=sys.stderr)
            return 1
        state = AuditsReader(reader).outcome_of(batch.index).state
        facts = _facts(reader, batch, proof, state, account.address if account else None)
        receipt = None
        if account is not None:
            if state not in OPEN:
                raise SapoError(f"batch {batch.index} is {state} already: nothing can be proven against it any more")
            receipt = send(reader, account, proof.call)
        _print(facts | _sent(receipt), as_json=options.json)
    return 0


def _look(tools: Bench, batch: BatchInfo) -> tuple[list[CheckResult], Proof | None]:
    audit = tools.audit(batch)
    outcomes = check_batch(audit)
    try:
        return outcomes, find_proof(audit)
    except ObjectError:  # not all records are at hand
        return outcomes, None


def _why_not(outcomes: list[CheckResult]) -> str:
    last = outcomes[-1]
    if last.status == "void":
        return f"nothing is provable, as nothing can be said about it: {last.check}: {last.reason}"
    if last.status == "unknown" and last.check == "available":
        return f"nothing can be said from here: {last.reason}"
    if last.status == "fail":
        return (
            f"the check {last.check} failed ({last.reason}), but that is no fault that the contract can see; "
            "it takes votes, or a dispute in the third round after the batch's"
        )
    return "nothing is provable: its records hold what they must"


def _facts(
    reader: ChainReader, batch: BatchInfo, proof: Proof, state: BatchState, sender: str | None
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "index": batch.index,
        "round": batch.round,
        "node": batch.node,
        "state": state.value,
        "proof": KINDS[proof.call.function],
        "slot": proof.slot,
        "completion": proof.k,
    }
    if proof.record is not None and proof.u is not None:
        facts |= {"position": proof.t, "token": proof.record.token}
        facts |= {name: f"0x{value:016x}" for name, value in _interval(proof).items()}
    facts |= {
        "fault": proof.reason,
        "to": reader.address_of(proof.call.contract),
        "calldata": "0x" + proof.call.encode().hex(),
    }
    facts["calldata_bytes"] = len(facts["calldata"]) // 2 - 1
    try:
        facts["gas"] = estimate(reader, proof.call, sender)
    except ChainUnavailable:
        raise
    except ChainError as error:
        facts["refused"] = str(error)
    facts["reward"] = coins(reader.node_of(batch.node).bond // PROVERS_PART)  # of what is left of its bond
    return facts


def _interval(proof: Proof) -> dict[str, int]:
    assert proof.record is not None
    assert proof.u is not None
    return {"lo": proof.record.lo, "last": proof.record.last, "u": proof.u}


def _sent(receipt: Receipt | None) -> dict[str, Any]:
    if receipt is None:
        return {}
    return {"transaction": "0x" + receipt.hash.hex(), "block": receipt.block, "gas_used": receipt.gas}


def _print(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    print(f"batch {facts['index']}: round {facts['round']}, node {facts['node']}, {facts['state']}")
    where = ", ".join(f"{name} {facts[name]}" for name in ("slot", "completion", "position") if name in facts)
    print(f"  proof of a false {facts['proof']} at {where}")
    print(f"  {facts['fault']}")
    for name in ("token", "lo", "last", "u"):
        if name in facts:
            print(f"    {name:5} {facts[name]}")
    gas = f"about {facts['gas']} gas" if "gas" in facts else f"refused now: {facts['refused']}"
    print(f"  {facts['calldata_bytes']} bytes of calldata to Audits at {facts['to']}; {gas}")
    if "transaction" in facts:
        print(f"  sent: {facts['transaction']}, mined in block {facts['block']} with {facts['gas_used']} gas")
        print(f"  the prover gets {facts['reward']} coins, a quarter of what is locked")
    elif "gas" in facts:
        print(f"  --send --keystore FILE sends it, for {facts['reward']} coins, a quarter of what is locked")
