"""What an RPC may answer (Ethereum JSON-RPC specification): the shapes, checked before anything else sees them.

Behind these checks web3 and this package meet only hex that is hex and fields that are there. Of blocks, transactions,
receipts and logs only the fields that are used are handed on; the rest would be parsed for nothing.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from web3.exceptions import BadResponseFormat

Shape = Callable[[Any], Any]  # gives the value, or raises BadResponseFormat

_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")
_SMALL = re.compile(r"0x0*[0-9a-fA-F]{1,15}")
_DATA = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
_WORD = re.compile(r"0x[0-9a-fA-F]{64}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_MESSAGE_CHARACTERS = 1000
_UNKNOWN_ERROR = -32000


def parse(body: bytes) -> Any:
    """JSON of any shape."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:  # also bytes that are no UTF-8, and integers of thousands of digits
        raise BadResponseFormat("the answer is not JSON") from error


def one(answer: Any, method: str, id_: int) -> dict[str, Any]:
    """One answer to a request: with a result of the method's shape, or an error that web3 can read."""
    if isinstance(answer, dict) and answer.get("error", ...) is None:
        del answer["error"]  # some providers always name both
    if not isinstance(answer, dict) or ("error" in answer) == ("result" in answer):
        raise BadResponseFormat(f"the answer to {method} is not of JSON-RPC")
    if "error" in answer:
        return {"jsonrpc": "2.0", "id": id_, "error": _error(answer["error"])}
    if type(answer.get("id")) is not int or answer["id"] != id_:
        raise BadResponseFormat(f"the answer to {method} is one to another request")
    return {"jsonrpc": "2.0", "id": id_, "result": SHAPES.get(method, _anything)(answer["result"])}


def many(answers: Any, methods: Sequence[str], first_id: int) -> list[dict[str, Any]] | dict[str, Any]:
    """The answers to a batch, in the order of the requests; a single error where the RPC takes no batches."""
    if isinstance(answers, dict) and "error" in answers:
        return {"jsonrpc": "2.0", "id": None, "error": _error(answers["error"])}
    if not isinstance(answers, list) or len(answers) != len(methods):
        raise BadResponseFormat("the answer to a batch is not one answer to each request")
    by_id: dict[int, Any] = {}
    for answer in answers:
        id_ = answer.get("id") if isinstance(answer, dict) else None
        if type(id_) is not int or id_ in by_id:
            raise BadResponseFormat("the answers to a batch do not say what they answer")
        by_id[id_] = answer
    if set(by_id) != set(range(first_id, first_id + len(methods))):
        raise BadResponseFormat("the answers to a batch are those to other requests")
    return [one(by_id[first_id + i], method, first_id + i) for i, method in enumerate(methods)]


def _error(error: Any) -> dict[str, Any]:
    """An error object. Revert data goes inside another object: of bare data web3 decodes some itself, and can fail."""
    if not isinstance(error, dict):
        error = {"message": error}
    code, message, data = error.get("code"), error.get("message"), error.get("data", ...)
    if isinstance(data, dict):
        data = data.get("data", ...)
    text = (message if isinstance(message, str) else str(message))[:_MESSAGE_CHARACTERS]
    made = {
        "code": code if type(code) is int and abs(code) < 2**53 else _UNKNOWN_ERROR,
        # As it stands, web3 takes this one for an answer about a transaction, whatever was asked.
        "message": "Transaction not found" if text == "transaction not found" else text,
    }
    if data is None:
        return made | {"data": None}
    if isinstance(data, str) and _DATA.fullmatch(given := data.strip().removeprefix("Reverted ")):
        return made | {"data": {"data": given}, "message": made["message"] or "execution reverted"}
    return made


def _anything(value: Any) -> Any:
    return value


def _hex(pattern: re.Pattern[str], name: str) -> Shape:
    def check(value: Any) -> Any:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise BadResponseFormat(f"{str(value)[:80]!r} is not {name}")
        return value

    return check


def _or_none(shape: Shape) -> Shape:
    return lambda value: None if value is None else shape(value)


def _list(shape: Shape, most: int, least: int = 0) -> Shape:
    def check(value: Any) -> Any:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise BadResponseFormat(f"a list of {least} … {most} was expected")
        return [shape(item) for item in value]

    return check


def _fields(required: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise BadResponseFormat(f"{str(value)[:80]!r} is not an object")
        if missing := required.keys() - value.keys():
            raise BadResponseFormat(f"{', '.join(sorted(missing))} is missing")
        shapes = required | {name: shape for name, shape in (optional or {}).items() if name in value}
        return {name: shape(value[name]) for name, shape in shapes.items()}

    return check


QUANTITY, DATA = _hex(_QUANTITY, "a quantity"), _hex(_DATA, "hex data")
SMALL = _hex(_SMALL, "a number of blocks, gas or transactions")  # below 2**60: they are stored, and signed
WORD, ADDRESS = _hex(_WORD, "32 bytes"), _hex(_ADDRESS, "an address")
TRANSACTION = _fields(
    {"hash": WORD, "from": ADDRESS, "nonce": SMALL},
    {"blockNumber": _or_none(SMALL), "to": _or_none(ADDRESS), "input": DATA, "value": QUANTITY},
)
HEADER: dict[str, Shape] = dict.fromkeys(
    ("sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom", "extraData", "mixHash",
     "nonce", "withdrawalsRoot", "parentBeaconBlockRoot", "requestsHash"), _or_none(DATA),
) | dict.fromkeys(
    ("difficulty", "gasLimit", "gasUsed", "blobGasUsed", "excessBlobGas"), _or_none(QUANTITY)
)  # fmt: skip
BLOCK = _fields(
    {"hash": WORD, "number": SMALL},
    {
        "parentHash": WORD,
        "timestamp": SMALL,
        "baseFeePerGas": _or_none(QUANTITY),
        "transactions": _list(lambda item: WORD(item) if isinstance(item, str) else TRANSACTION(item), 1 << 20),
        **HEADER,
    },
)
PROOF = _fields(
    {"accountProof": _list(DATA, 64), "storageProof": _list(_fields({"proof": _list(DATA, 64)}), 16)},
)
LOG = _fields(
    {
        "address": ADDRESS, "topics": _list(WORD, 4), "data": DATA, "blockNumber": SMALL, "blockHash": WORD,
        "transactionHash": WORD, "logIndex": SMALL,
    }
)  # fmt: skip
_MINED = _fields(
    {"transactionHash": WORD, "blockHash": WORD, "blockNumber": SMALL, "status": SMALL, "gasUsed": SMALL},
    {"contractAddress": _or_none(ADDRESS), "effectiveGasPrice": QUANTITY, "logs": _list(LOG, 1 << 16)},
)


def _receipt(value: Any) -> Any:
    """Some RPCs give receipts of transactions that are not in a block yet; then there is none."""
    waiting = isinstance(value, dict) and "blockHash" in value and value["blockHash"] is None
    return None if value is None or waiting else _MINED(value)


SHAPES: dict[str, Shape] = {
    "eth_blockNumber": SMALL,
    "eth_call": DATA,
    "eth_chainId": SMALL,
    "eth_estimateGas": SMALL,
    "eth_feeHistory": _fields({"baseFeePerGas": _list(QUANTITY, 1025), "reward": _list(_list(QUANTITY, 100, 1), 1024)}),
    "eth_gasPrice": QUANTITY,
    "eth_getBalance": QUANTITY,
    "eth_getBlockByHash": _or_none(BLOCK),
    "eth_getBlockByNumber": _or_none(BLOCK),
    "eth_getCode": _or_none(DATA),
    "eth_getLogs": _list(LOG, 1 << 20),
    "eth_getProof": PROOF,
    "eth_getTransactionByHash": _or_none(TRANSACTION),
    "eth_getTransactionCount": SMALL,
    "eth_getTransactionReceipt": _receipt,
    "eth_maxPriorityFeePerGas": QUANTITY,
    "eth_sendRawTransaction": WORD,
    "eth_sendTransaction": WORD,
}
