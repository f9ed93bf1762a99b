"""A provider of an RPC as the world has them, in front of a chain of ours: it lags, is slow, is cut off, talks rubbish,
or leads to another chain, for as long as it is told to."""

import json
import time
from dataclasses import dataclass
from typing import Any

from sapo_devnet.testkit.faulty_rpc import FaultyRpc

# Where the block stands among a method's parameters; left out it is the latest.
BLOCK_AT = {
    "eth_call": 1,
    "eth_estimateGas": 1,
    "eth_getBalance": 1,
    "eth_getBlockByNumber": 0,
    "eth_getCode": 1,
    "eth_getTransactionCount": 1,
}


def well(method: str, params: Any) -> None:
    """No fault."""


@dataclass
class Provider(FaultyRpc):
    """lag: blocks by which its view is behind; delay: seconds before it answers; instead: HTTP status and body of
    every answer, whatever was asked. All may be set anew at any time."""

    lag: int = 0
    delay: float = 0.0
    instead: tuple[int, bytes] | None = None

    def heal(self, target: str) -> None:
        """As it should be, before the RPC at `target`."""
        self.target, self.fault, self.status, self.cap = target, well, 200, lambda calls: None
        self.lag, self.delay, self.instead = 0, 0.0, None

    def answer(self, body: bytes) -> tuple[int, bytes]:
        time.sleep(self.delay)
        return self.instead or super().answer(body)

    def _ask(self, body: bytes) -> bytes:
        if not self.lag:
            return super()._ask(body)
        asked = json.loads(body)
        calls = asked if isinstance(asked, list) else [asked]
        latest = {"jsonrpc": "2.0", "id": 0, "method": "eth_blockNumber", "params": []}
        head = max(0, int(json.loads(super()._ask(json.dumps(latest).encode()))["result"], 16) - self.lag)
        answers = json.loads(super()._ask(json.dumps([_of_block(call, head) for call in calls]).encode()))
        by_id = {answer["id"]: answer for answer in answers}
        seen = [_as_of(by_id[call["id"]], call["method"], head) for call in calls]
        return json.dumps(seen if isinstance(asked, list) else seen[0]).encode()


def _of_block(call: dict[str, Any], head: int) -> dict[str, Any]:
    """The same question about the block that is the latest for who lags."""
    at = BLOCK_AT.get(call["method"])
    if at is None:
        return call
    params = [*call["params"], *["latest"] * (at + 1 - len(call["params"]))]
    if params[at] in ("latest", "pending"):
        params[at] = hex(head)
    return call | {"params": params}


def _as_of(answer: dict[str, Any], method: str, head: int) -> dict[str, Any]:
    """The answer without what happened after `head`."""
    found = answer.get("result")
    if method == "eth_blockNumber":
        return answer | {"result": hex(head)}
    if isinstance(found, dict):
        number = found.get("number" if method == "eth_getBlockByNumber" else "blockNumber")
        if number is not None and int(number, 16) > head:
            waits = method == "eth_getTransactionByHash"
            return answer | {"result": found | {"blockNumber": None, "blockHash": None} if waits else None}
    return answer
