"""The evidence of a batch from a chain's RPC, which need not be trusted: what it gives is proven before it is used."""

from typing import Any

from sapo_verifier.bundles import rlp
from sapo_verifier.bundles.errors import BundleError
from sapo_verifier.bundles.evidence import Evidence, Proven, prove, slots_of
from sapo_verifier.chain import rpc
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError, Refused, explain_rpc_error
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.facts import BatchInfo
from sapo_verifier.protocol import word

# The fields of a header in their order, and whether each is a number. The later ones came with hard forks.
HEADER = (
    ("parentHash", False), ("sha3Uncles", False), ("miner", False), ("stateRoot", False), ("transactionsRoot", False),
    ("receiptsRoot", False), ("logsBloom", False), ("difficulty", True), ("number", True), ("gasLimit", True),
    ("gasUsed", True), ("timestamp", True), ("extraData", False), ("mixHash", False), ("nonce", False),
    ("baseFeePerGas", True), ("withdrawalsRoot", False), ("blobGasUsed", True), ("excessBlobGas", True),
    ("parentBeaconBlockRoot", False), ("requestsHash", False),
)  # fmt: skip


def gather(reader: ChainReader, batch: BatchInfo, block: int | None = None) -> tuple[Evidence, Proven]:
    """The evidence of a batch, and what it shows. block: whose state proves it; None: the latest one's.

    Raises ChainError where the RPC gives no proofs of that block, or such as prove nothing, and what reads raise.
    """
    number = reader.block_number() if block is None else block
    rounds, at = reader.address_of("rounds"), hex(number)
    entropy = Call("beacon", "entropy", (batch.round,))
    slots = ["0x" + word(slot).hex() for slot in slots_of(batch.index, batch.node, batch.round)]
    with rpc.transport(reader.rpc_url):
        try:
            header, proof, code, answer = rpc.batch(
                reader.w3,
                [
                    ("eth_getBlockByNumber", [at, False]),
                    ("eth_getProof", [rounds, slots, at]),
                    ("eth_getCode", [rounds, at]),
                    ("eth_call", [{"to": reader.address_of("beacon"), "data": "0x" + entropy.encode().hex()}, at]),
                ],
            )
        except Refused as error:
            raise ChainError(
                f"{reader.where} does not prove what block {number} holds: {explain_rpc_error(error.error)}; use one "
                "that has eth_getProof and this block's state"
            ) from error
    if header is None or code is None:
        raise ChainError(f"{reader.where} has no block {number}: was the chain reset, or is the number wrong?")
    nodes = [*proof["accountProof"], *(node for each in proof["storageProof"] for node in each["proof"])]
    try:
        made = Evidence(
            chain=reader.deployment.chain_id,
            rounds=rounds,
            index=batch.index,
            entropy=_raw(answer)[:32],
            header=header_bytes(header),
            code=_raw(code),
            nodes=list(dict.fromkeys(map(_raw, nodes))),
        )
        proven = prove(made)
    except (BundleError, ValueError) as error:
        raise ChainError(
            f"what {reader.where} says of block {number} proves nothing: {error}; try again, or use another RPC"
        ) from error
    if proven.block_hash != _raw(header["hash"]):
        raise ChainError(
            f"{reader.where} calls block {number} {header['hash']}, and its header has the hash "
            f"0x{proven.block_hash.hex()}: a chain whose headers have other fields, of which no bundle can be made"
        )
    return made, proven


def header_bytes(block: dict[str, Any]) -> bytes:
    """A block's header in RLP, of what eth_getBlockByNumber gives. Raises BundleError where a field is missing."""
    given = [(name, is_number) for name, is_number in HEADER if block.get(name) is not None]
    if [name for name, _ in given] != [name for name, _ in HEADER[: len(given)]]:
        missing = next(name for name, _ in HEADER if block.get(name) is None)
        raise BundleError(f"the block's header has no {missing}")
    return rlp.encode(
        [rlp.number(int(block[name], 16)) if is_number else _raw(block[name]) for name, is_number in given]
    )


def _raw(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
