"""Errors inside answers are trouble, not verdicts: waited for like an RPC that is away; nothing follows from them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outboxes import ENDPOINT, REGISTER, nonce, settle
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.questions import cost_of
from sapo_devnet.testkit.faulty_rpc import FaultyRpc, faulty_rpc
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.chain import rpc
from sapo_verifier.chain.contracts import Call, abi, signature_hash
from sapo_verifier.chain.errors import ChainError, ChainUnavailable, Refused
from sapo_verifier.chain.reader import ChainReader

TROUBLES: dict[str, dict[str, Any]] = {
    "limit": {"code": -32005, "message": "daily request count exceeded"},
    "internal": {"code": -32603, "message": "Internal error"},
    "rate": {"code": -32016, "message": "over the rate"},
    "header": {"code": -32000, "message": "header not found"},
    "trie": {"code": -32000, "message": "missing trie node 5f3c (path )"},
    "time": {"code": -32000, "message": "request timed out"},
}


NOT_REGISTERED = (
    "0x"
    + signature_hash(
        next(entry for entry in abi("Nodes") if entry["type"] == "error" and entry["name"] == "NotBonded")
    )[:4].hex()
    + "00" * 64
)


def well(method: str, params: Any) -> None:
    """No fault."""


@pytest.fixture
def proxy(network: Network) -> Iterator[FaultyRpc]:
    with faulty_rpc(network.chain.url, well) as made:
        yield made


@pytest.fixture
def reader(network: Network, proxy: FaultyRpc) -> Iterator[ChainReader]:
    made = ChainReader(proxy.url, network.deployment)
    yield made
    made.close()


@pytest.fixture
def outbox(network: Network, reader: ChainReader, tmp_path: Path) -> Iterator[Outbox]:
    network.chain.rpc("evm_setAutomine", False)
    made = Outbox(tmp_path / "outbox.sqlite", reader, network.chain.account(1))
    yield made
    made.close()


@pytest.mark.parametrize("error", TROUBLES.values(), ids=TROUBLES)
def test_no_read_takes_them_for_an_answer(proxy: FaultyRpc, reader: ChainReader, error: dict[str, Any]) -> None:
    node = "0x" + "22" * 20
    reads = (
        reader.check,
        reader.current_round,
        reader.block_number,
        lambda: reader.node_of(node),
        lambda: reader.balance(node),
        lambda: reader.call(Call("rounds", "poke")),
        lambda: cost_of(reader, ENDPOINT, node),
    )
    proxy.fault = lambda method, params: error
    for read in reads:
        with pytest.raises(ChainUnavailable, match="has no answer now: the "):
            read()
    proxy.fault = well
    assert reader.block_number() > 0


@pytest.mark.parametrize("method", ["eth_estimateGas", "eth_getTransactionReceipt", "eth_blockNumber"])
@pytest.mark.parametrize("error", TROUBLES.values(), ids=TROUBLES)
def test_the_outbox_waits_and_does_everything_once(
    network: Network, proxy: FaultyRpc, outbox: Outbox, method: str, error: dict[str, Any]
) -> None:
    outbox.put("register", REGISTER, value=BOND)
    outbox.put("endpoint", ENDPOINT)
    outbox.pump()
    network.chain.mine()
    outbox.put("late", Call("nodes", "setEndpoint", ("/ip4/10.0.0.1/tcp/82/http",)), deadline_round=9)
    proxy.fault = lambda asked, params: error if asked == method else None
    for _ in range(3):
        with pytest.raises(ChainUnavailable):
            outbox.pump()
    assert {outbox.state(key).status for key in ("register", "endpoint", "late")} <= {"intent", "sent", "mined"}
    proxy.fault = well
    outbox.pump()
    network.chain.mine()
    outbox.pump()
    assert {outbox.state(key).status for key in ("register", "endpoint", "late")} == {"mined"}
    assert nonce(network, outbox) == 3


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32603, "message": "execution reverted: no"},
        {"code": -32005, "message": "limit exceeded", "data": "0x08c379a0" + "00" * 31 + "20" + "00" * 32},
        {"code": 3, "message": "execution reverted"},
    ],
)
def test_a_refusal_stays_one_whatever_its_code(proxy: FaultyRpc, reader: ChainReader, error: dict[str, Any]) -> None:
    proxy.fault = lambda method, params: error if method in ("eth_call", "eth_estimateGas") else None
    with pytest.raises(ChainError) as refused:
        reader.call(Call("rounds", "poke"))
    assert not isinstance(refused.value, ChainUnavailable)
    assert cost_of(reader, ENDPOINT, "0x" + "22" * 20) is None


def test_an_rpc_that_knows_no_pending_block_is_asked_about_the_latest(
    network: Network, proxy: FaultyRpc, outbox: Outbox
) -> None:
    proxy.fault = lambda method, params: {"code": -32000, "message": "unknown block"} if "pending" in params else None
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    network.chain.mine()
    outbox.pump()
    assert outbox.state("register").status == "mined"


def test_old_state_that_is_gone_holds_nothing_up(network: Network, proxy: FaultyRpc, outbox: Outbox) -> None:
    """Who took a nonce is not known then, and nothing is signed again; everything else goes on."""
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    network.chain.mine()
    proxy.fault = lambda method, params: (
        TROUBLES["trie"] if method == "eth_getTransactionCount" and params[1].startswith("0x") else None
    )
    outbox.pump()
    assert outbox.state("register").status == "mined"
    outbox.put("endpoint", ENDPOINT)
    outbox.pump()
    network.chain.rpc("anvil_dropAllTransactions")
    address = network.chain.account(1).address
    network.chain.w3.eth.send_transaction({"from": address, "to": address, "value": 0})
    network.chain.mine()
    outbox.pump()
    assert outbox.state("endpoint").status == "sent"
    assert "no receipt yet" in outbox.state("endpoint").reason


def errors(calls: list[Any], first: int = 0, code: int = -32600) -> list[dict[str, Any]]:
    """Answers of a capping provider: zeros up to `first`, and then errors."""
    error = {"code": code, "message": "batch or response too large"}
    zero, rest = calls[:first], calls[first:]
    return [{"jsonrpc": "2.0", "id": call["id"], "result": "0x0"} for call in zero] + [
        {"jsonrpc": "2.0", "id": call["id"], "error": error} for call in rest
    ]


CAPS: dict[str, Any] = {
    "400": lambda calls: (400, {"error": "too many"}),
    "413": lambda calls: (413, ""),
    "429": lambda calls: (429, ""),
    "500": lambda calls: (500, ""),
    "an error instead of a list": lambda calls: (200, errors(calls)[0]),
    "a list with one error": lambda calls: (200, errors(calls)[:1]),
    "an error for each call": lambda calls: (200, errors(calls)),
    "a limit for each call": lambda calls: (200, errors(calls, code=-32005)),
    "errors for the last calls": lambda calls: (200, errors(calls, 5)),
}


@pytest.mark.parametrize("most", [1, 3, 8])
@pytest.mark.parametrize("cap", CAPS.values(), ids=CAPS)
def test_a_provider_that_caps_batches_is_asked_in_smaller_ones(proxy: FaultyRpc, cap: Any, most: int) -> None:
    """And it is remembered: the next batch begins with what was taken."""
    proxy.cap = lambda calls: cap(calls) if len(calls) > most else None
    w3 = rpc.connect(proxy.url)
    node = "0x" + "22" * 20
    reads = [("eth_getBalance", [node, "latest"])] * 40
    assert rpc.batch(w3, reads) == ["0x0"] * 40
    first, proxy.requests = proxy.requests, 0
    assert rpc.batch(w3, reads) == ["0x0"] * 40
    assert proxy.requests <= min(first, 40 / max(1, most // 2) + 40 // 12)
    rpc.close(w3)


def test_one_call_that_is_refused_says_nothing_about_batches(proxy: FaultyRpc) -> None:
    proxy.fault = lambda method, params: {"code": -32000, "message": "no"} if params[0] == "0x" + "33" * 20 else None
    w3 = rpc.connect(proxy.url)
    reads = [("eth_getBalance", ["0x" + digit * 20, "latest"]) for digit in ("22", "33", "44")]
    with pytest.raises(Refused, match=r"refused eth_getBalance: .* no "):
        rpc.batch(w3, reads)
    proxy.fault, proxy.requests = well, 0
    assert len(rpc.batch(w3, reads)) == 3
    assert proxy.requests == 1
    rpc.close(w3)


def test_a_provider_that_is_down_is_not_taken_for_one_that_caps(proxy: FaultyRpc) -> None:
    w3 = rpc.connect(proxy.url)
    reads = [("eth_getBalance", ["0x" + "22" * 20, "latest"])] * 40
    proxy.cap, proxy.fault, proxy.status = (lambda calls: (500, "")), (lambda method, params: {"code": 1}), 500
    with pytest.raises(ChainUnavailable, match="HTTP 500"), rpc.transport(proxy.url):
        rpc.batch(w3, reads)
    proxy.cap, proxy.fault, proxy.requests = (lambda calls: None), well, 0
    assert len(rpc.batch(w3, reads)) == 40
    assert proxy.requests == 1
    rpc.close(w3)


@pytest.mark.parametrize("blocks_come", [True, False])
@pytest.mark.parametrize("refusals", [2, 100])
def test_a_refusal_is_final_only_when_it_is_repeated(
    network: Network, proxy: FaultyRpc, outbox: Outbox, refusals: int, blocks_come: bool
) -> None:
    """A view that lags behind the block in which what a call needs is mined."""
    lagging = [{"code": 3, "message": "execution reverted", "data": NOT_REGISTERED}] * refusals
    outbox.put("register", REGISTER, value=BOND)
    settle(network, outbox)
    proxy.fault = lambda method, params: lagging.pop() if lagging and method == "eth_estimateGas" else None
    outbox.put("endpoint", ENDPOINT)
    for pumped in range(10):
        outbox.pump()
        if blocks_come or not lagging:
            network.chain.mine()
        if pumped == 0:
            state = outbox.state("endpoint")
            assert (state.status, "asked again (the node" in state.reason) == ("intent", True)
    state = outbox.state("endpoint")
    if refusals == 2:
        assert state.status == "mined"
    else:
        assert (state.status, "has no locked bond" in state.reason) == ("failed", True)
        assert refusals - len(lagging) == (3 if blocks_come else 6), "and is not asked for ever"
