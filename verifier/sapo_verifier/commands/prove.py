"""`sapo-verify prove`: what anybody can prove against a batch, shown and, if asked to, sent."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_verifier.commands.options import add_audit_options, number
from sapo_verifier.commands.program import Commands, add_parser
from sapo_verifier.errors import ObjectError, SapoError, UnableError, UsageError
from sapo_verifier.schedule import PROVERS_PART

if TYPE_CHECKING:
    from sapo_verifier.audit import CheckResult
    from sapo_verifier.chain.audits import BatchState
    from sapo_verifier.chain.pinned import PinnedReader
    from sapo_verifier.chain.sending import Receipt
    from sapo_verifier.facts import BatchInfo
    from sapo_verifier.proofs import Proof
    from sapo_verifier.verify import Verifier

WORDS = "fetch one batch and print the proof of a fault that the contract can see; exit status 1 if there is none"
OPEN = ("pending", "standing", "disputed")  # the states in which a batch can still be proven false
KINDS = {"proveRecord": "record", "proveLength": "length"}


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "prove", WORDS, run)
    add_audit_options(parser)
    parser.add_argument("index", type=number, help="the batch's position in the chain's list of all batches")
    parser.add_argument("--send", action="store_true", help="send it; a tenth of the node's bond goes to who does")
    parser.add_argument("--keystore", type=Path, metavar="FILE", help="the key that sends; of no node that is running")
    parser.add_argument("--password-file", type=Path, metavar="FILE", help="the keystore's password; else asked for")


def run(options: argparse.Namespace) -> int:
    """Prints the proof (with --send: once it is mined). Raises SapoError, with the reason, if nothing is provable."""
    from sapo_verifier import keystore
    from sapo_verifier.chain.audits import AuditsReader
    from sapo_verifier.chain.sending import send
    from sapo_verifier.commands.tools import pinned_chain_of, verifier_of

    # What would stop the sending is told before the work.
    account = None
    if options.send:
        if options.keystore is None:
            raise UsageError("--send needs the key that signs: --keystore FILE, and --password-file FILE or a terminal")
        account = keystore.load(options.keystore, keystore.read_password(options.password_file))
    with pinned_chain_of(options) as reader, verifier_of(options, reader) as verifier:
        batch = verifier.batch(options.index)
        results, proof = _look(verifier, batch)
        if proof is None:
            raise _why_not(batch.index, results)
        state = AuditsReader(reader).outcome_of(batch.index).state
        facts = _facts(reader, batch, proof, state, account.address if account else None)
        receipt = None
        if account is not None:
            if state not in OPEN:
                raise SapoError(f"batch {batch.index} is {state} already: nothing can be proven against it any more")
            receipt = send(reader, account, proof.call)
        _print(facts | _sent(receipt), as_json=options.json)
    return 0


def _look(verifier: "Verifier", batch: "BatchInfo") -> "tuple[list[CheckResult], Proof | None]":
    from sapo_verifier.proofs import find_proof

    audit = verifier.audit(batch)
    results = verifier.check(audit)
    try:
        return results, find_proof(audit)
    except ObjectError:  # not all records are at hand
        return results, None


def _why_not(index: int, results: "list[CheckResult]") -> SapoError:
    last = results[-1]
    if last.status == "void":
        words = f"nothing is provable, as nothing can be said about it: {last.check}: {last.reason}"
        return SapoError(f"batch {index}: {words}")
    if last.status == "unknown" and last.check == "available":
        return UnableError(f"batch {index}: nothing can be said from here: {last.reason}")
    if last.status == "fail":
        return SapoError(
            f"batch {index}: the check {last.check} failed ({last.reason}), but that is no fault that the contract can "
            "see; it takes votes, or a dispute in the third round after the batch's"
        )
    return SapoError(f"batch {index}: nothing is provable: its records hold what they must")


def _facts(
    reader: "PinnedReader", batch: "BatchInfo", proof: "Proof", state: "BatchState", sender: str | None
) -> dict[str, Any]:
    from sapo_verifier.chain.errors import ChainError, ChainUnavailable, coins
    from sapo_verifier.chain.sending import estimate
    from sapo_verifier.documents import document

    facts: dict[str, Any] = {
        "source": document(reader.source),
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


def _interval(proof: "Proof") -> dict[str, int]:
    assert proof.record is not None
    assert proof.u is not None
    return {"lo": proof.record.lo, "last": proof.record.last, "u": proof.u}


def _sent(receipt: "Receipt | None") -> dict[str, Any]:
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
        print(f"  the prover gets {facts['reward']} coins, a tenth of what is locked")
    elif "gas" in facts:
        print(f"  --send --keystore FILE sends it, for {facts['reward']} coins, a tenth of what is locked")
