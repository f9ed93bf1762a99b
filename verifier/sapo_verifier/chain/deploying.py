"""Deploys a network: its beacon, Nodes, Rounds, Audits, Rewards, in this order; Rewards makes the token.

Nodes holds the address of Audits for ever, but Audits is deployed after Nodes. A contract's address follows from the
deployer and its nonce, so Audits has to be the deployer's next transaction after Rounds.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eth_abi.abi import encode
from eth_utils.address import is_address, to_checksum_address
from web3 import Web3
from web3.exceptions import ContractLogicError, TimeExhausted, Web3RPCError
from web3.types import Nonce
from web3.utils import get_create_address

from sapo_verifier.chain.contracts import abi, abi_type
from sapo_verifier.chain.contracts import creation_code as packaged_code
from sapo_verifier.chain.deployment import Contracts, Deployment
from sapo_verifier.chain.errors import ChainError, ChainUnavailable, explain
from sapo_verifier.chain.signing import Fees, estimate_gas, sign
from sapo_verifier.drand import Drand
from sapo_verifier.errors import UsageError
from sapo_verifier.spec import Spec

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

ORDER = ("BlockhashBeacon", "Nodes", "Rounds", "Audits", "Rewards")
DRAND_ORDER = ("DrandBeacon", *ORDER[1:])
START_DELAY_BLOCKS = 8  # between the first deployment and round 0: five blocks for the contracts, and some room


def deploy(
    w3: Web3,
    account: "LocalAccount | str",
    spec: Spec,
    *,
    drand: Drand | None = None,
    artifacts: Path | None = None,
    first_block: int | None = None,
    timeout: float = 300.0,
) -> Deployment:
    """Deploys the contracts for `spec` and returns the deployment.

    account: a key, or the address of an account that the RPC itself holds (a devnet's).
    drand: what the beacon waits for; None: it takes block hashes.
    artifacts: forge's out/; None: the contracts that this package brings. first_block: of round 0; by default a few
    blocks after the deployment.
    timeout: seconds to wait for each transaction. The chain has to make blocks meanwhile.
    Raises ChainError, or UsageError for an address or a folder that cannot be; nothing is written or remembered then,
    and one can simply start again.
    """
    if isinstance(account, str) and not is_address(account):
        raise UsageError(f"{account!r} is no address: 0x and 40 hex digits")
    sender = to_checksum_address(account if isinstance(account, str) else account.address)
    nonce = w3.eth.get_transaction_count(sender)
    addresses = {name: contract_address(sender, nonce + i) for i, name in enumerate(order_of(drand))}
    if first_block is None:
        first_block = w3.eth.block_number + START_DELAY_BLOCKS
    arguments = constructor_arguments(spec, first_block, addresses, drand)
    # Nothing is sent before everything is known to be there.
    codes = {name: creation_code(artifacts, name, arguments[name]) for name in arguments}

    receipts = {}
    for i, (name, code) in enumerate(codes.items()):
        receipts[name] = _send(w3, account, sender, nonce + i, name, code, timeout)
        made = str(receipts[name]["contractAddress"]).lower()
        if made != addresses[name]:
            raise ChainError(
                f"{name} was deployed at {made} instead of {addresses[name]}: another transaction of {sender.lower()} "
                "came in between. Let nothing else use this key, and deploy again"
            )
    first = receipts[order_of(drand)[0]]
    block, block_hash = first["blockNumber"], bytes(first["blockHash"])
    return deployment_of(spec, w3.eth.chain_id, block, block_hash, first_block, addresses, drand)


def order_of(drand: Drand | None) -> tuple[str, ...]:
    """The contracts' Solidity names, in the order in which they are deployed."""
    return ORDER if drand is None else DRAND_ORDER


def deployment_of(
    spec: Spec,
    chain_id: int,
    block: int,
    block_hash: bytes,
    first_block: int,
    addresses: dict[str, str],
    drand: Drand | None,
) -> Deployment:
    """The document. block, block_hash: of the first contract; addresses: by contract."""
    return Deployment(
        chain_id=chain_id,
        block=block,
        block_hash=block_hash,
        first_block=first_block,
        contracts=Contracts(
            beacon=addresses[order_of(drand)[0]],
            nodes=addresses["Nodes"],
            rounds=addresses["Rounds"],
            audits=addresses["Audits"],
            disputes=contract_address(addresses["Audits"], 1),
            proofs=contract_address(addresses["Audits"], 2),
            rewards=addresses["Rewards"],
            token=contract_address(addresses["Rewards"], 1),
        ),
        drand=drand,
        spec_digest=spec.digest(),
        spec=spec,
    )


def contract_address(deployer: str, nonce: int) -> str:
    """The address of the contract that `deployer` creates with `nonce` (Yellow Paper, section 7). Lower case."""
    return get_create_address(to_checksum_address(deployer), Nonce(nonce)).lower()


def constructor_arguments(
    spec: Spec, first_block: int, addresses: dict[str, str], drand: Drand | None
) -> dict[str, list[Any]]:
    """By contract; addresses: of all of them, as they will be."""
    chain = spec.chain
    parameters = (
        first_block,
        chain.round_blocks,
        spec.group_size,
        spec.max_slots,
        spec.max_new_tokens,
        chain.draws,
        chain.min_accepts,
        chain.min_rejects,
        spec.digest(),
    )
    terms = (
        chain.dispute_bond,
        chain.missed_batch_fee,
        chain.missed_reveal_fee,
        chain.wrong_verdict_penalty,
        chain.withheld_fee,
    )
    schedule = (
        int(chain.supply, 16),
        int(chain.initial_pool, 16),
        chain.halving_rounds,
        chain.auditors_share,
        int(chain.max_per_unit, 16),
        int(chain.max_per_verdict, 16),
    )
    beacon, clock = order_of(drand)[0], [first_block, chain.round_blocks]
    return {
        beacon: clock if drand is None else [*clock, *drand.constructor_arguments()],
        "Nodes": [int(chain.bond, 16), chain.exit_rounds * chain.round_blocks, addresses["Audits"]],
        "Rounds": [parameters, addresses["Nodes"], addresses[beacon]],
        "Audits": [addresses["Rounds"], tuple(int(amount, 16) for amount in terms)],
        "Rewards": [addresses["Audits"], schedule],
    }


def creation_code(artifacts: Path | None, name: str, arguments: list[Any] | None) -> bytes:
    """What deploys a contract; None: without its arguments. Raises UsageError where it was not compiled."""
    entries, code = (abi(name), packaged_code(name)) if artifacts is None else _compiled(artifacts, name)
    if arguments is None:
        return code
    constructor = next(entry for entry in entries if entry["type"] == "constructor")
    return code + encode([abi_type(given) for given in constructor["inputs"]], arguments)


def _compiled(artifacts: Path, name: str) -> tuple[list[dict[str, Any]], bytes]:
    path = artifacts / f"{name}.sol" / f"{name}.json"
    try:
        artifact = json.loads(path.read_text())
    except FileNotFoundError:
        raise UsageError(f"there is no compiled {name} at {path}; run `make contracts` first") from None
    return artifact["abi"], bytes.fromhex(artifact["bytecode"]["object"].removeprefix("0x"))


def _send(
    w3: Web3, account: "LocalAccount | str", sender: Any, nonce: int, name: str, code: bytes, timeout: float
) -> Any:
    transaction: Any = {"from": sender, "nonce": nonce, "data": "0x" + code.hex(), "value": 0}
    try:
        gas = estimate_gas(w3, transaction)
        if isinstance(account, str):
            hash_ = w3.eth.send_transaction(transaction | {"gas": gas})
        else:
            fees = Fees.of_market(w3)
            _, raw = sign(account, transaction, chain_id=w3.eth.chain_id, nonce=nonce, gas=gas, fees=fees)
            hash_ = w3.eth.send_raw_transaction(raw)
        receipt = w3.eth.wait_for_transaction_receipt(hash_, timeout=timeout, poll_latency=0.05)
    except (ContractLogicError, Web3RPCError) as error:
        raise ChainError(f"{name} cannot be deployed: {explain(error)}") from error
    except TimeExhausted:
        raise ChainUnavailable(
            f"the transaction that deploys {name} was not mined in {timeout:.0f} seconds; does the chain make blocks?"
        ) from None
    if receipt["status"] != 1:
        raise ChainError(f"the transaction that deploys {name} failed on chain; look at 0x{bytes(hash_).hex()}")
    return receipt
