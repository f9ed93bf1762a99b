"""What the chain says, in words: every custom error has a sentence, and no message is only hex."""

import re
import string
import subprocess
import sys

import pytest
from eth_abi.abi import encode
from web3.exceptions import BadResponseFormat, ContractCustomError, ContractLogicError, ContractPanicError, Web3RPCError

from sapo_verifier import net
from sapo_verifier.chain.answers import one
from sapo_verifier.chain.contracts import abi, abi_names, abi_type, signature_hash
from sapo_verifier.chain.errors import (
    RpcUrlError,
    coins,
    custom_errors,
    explain,
    explain_rpc_error,
    is_passing,
    mask_url,
)
from sapo_verifier.chain.rpc import connect
from sapo_verifier.chain.sentences import NODE_STATES, REVERTS
from sapo_verifier.errors import USAGE, SapoError
from sapo_verifier.schedule import NO_BATCH

NODE = "0x" + "ab" * 20


def example(entry: dict[str, object]) -> object:
    """A value of an ABI type."""
    kind = str(entry["type"])
    if kind == "tuple":
        return tuple(example(part) for part in entry["components"])  # type: ignore[attr-defined]
    if kind == "address":
        return NODE
    return b"\xcd" * 32 if kind == "bytes32" else "text" if kind == "string" else 3


def revert(name: str, *arguments: object) -> ContractCustomError:
    entry = next(entry for entry in custom_errors().values() if entry["name"] == name)
    data = signature_hash(entry)[:4] + encode([abi_type(given) for given in entry["inputs"]], arguments)
    return ContractCustomError("0x" + data.hex(), data="0x" + data.hex())


def rpc_error(message: str, **fields: object) -> Web3RPCError:
    answer = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": message} | fields}
    return Web3RPCError(repr(answer["error"]), rpc_response=answer)  # type: ignore[arg-type]


ENTRIES = [
    pytest.param(entry, id=f"{name}.{entry['name']}")
    for name in abi_names()
    for entry in abi(name)
    if entry["type"] == "error"
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_custom_error_has_a_sentence(entry: dict[str, object]) -> None:
    name = str(entry["name"])
    assert name in REVERTS
    names = {str(given["name"]) for given in entry["inputs"]}  # type: ignore[attr-defined]
    used = {field for _, field, _, _ in string.Formatter().parse(REVERTS[name]) if field}
    assert used <= names
    sentence = explain(revert(name, *(example(given) for given in entry["inputs"])))  # type: ignore[attr-defined]
    assert len(re.findall(r"[a-z]{2,}", sentence)) >= 6
    assert not re.search(r"0x[0-9a-f]{41,}", sentence)


def test_no_sentence_without_an_error() -> None:
    assert set(REVERTS) == {str(entry["name"]) for entry in custom_errors().values()}


def test_arguments_are_filled_in() -> None:
    assert explain(revert("RoundIsOver", 7, 9)).startswith("round 7 is over: this is round 9")
    assert explain(revert("WrongBond", 5 * 10**17, 10**18)) == (
        "the bond is exactly 1 coins, and 0.5 were sent; send that amount"
    )
    assert f"the node {NODE} did not ask to exit (it is registered)" in explain(revert("NotExiting", NODE, 1))
    assert "the beacon zero, and this chain's of round 1 is 0x07070707…" in explain(
        revert("WrongBeacon", 1, bytes(32), bytes([7]) * 32)
    )
    assert "roundBlocks 2" in explain(revert("InvalidParameters", (1, 2, 3, 4, 5, 6, 7, 8, bytes(32))))


def test_states_are_the_contract_s() -> None:
    """The sentences' words and the reader's enum are in the contract's order."""
    from sapo_verifier.chain.reader import NodeState

    assert len(NODE_STATES) == len(NodeState)
    assert [word.split()[-1] for word in NODE_STATES[1:]] == [state.value for state in NodeState][1:]


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (rpc_error("insufficient funds for gas * price + value"), "too little coin"),
        (rpc_error("Insufficient funds for gas * price + value"), "too little coin"),
        (rpc_error("nonce too low"), "mined already"),
        (rpc_error("transaction already imported"), "has this very transaction"),
        (rpc_error("already known"), "has this very transaction"),
        (rpc_error("replacement transaction underpriced"), "waits with the same nonce"),
        (rpc_error("transaction underpriced"), "fee offered is too low"),
        (rpc_error("max fee per gas less than block base fee"), "below what a block asks"),
        (rpc_error("something new", code=-32099), "the chain's RPC answered: something new (code -32099)"),
        (rpc_error(""), "an error without a message"),
        (rpc_error("execution reverted", data=revert("NoSuchStage", 3).data), "no stage 3"),
        (rpc_error("execution reverted"), "refused without giving a reason"),
        (ContractLogicError("execution reverted", data="0x"), "refused without giving a reason"),
        (ContractLogicError("execution reverted: too bad", data=None), "the contract refused: too bad"),
        (
            ContractLogicError("x", data="0x08c379a0" + encode(["string"], ["no luck"]).hex()),
            "the contract refused: no luck",
        ),
        (ContractPanicError("Panic", data="0x4e487b71" + "00" * 31 + "11"), "Solidity panic 0x11"),
        (ContractCustomError("0xdeadbeef", data="0xdeadbeef"), "does not know (selector 0xdeadbeef)"),
        (ContractCustomError("0x", data=revert("NoSuchBatch", 1, 1).data[:-10]), "cut short"),  # type: ignore[index]
        (net.NoConnection("refused"), "cannot be reached"),
        (net.TooSlow("slow"), "in time"),
        (SapoError("said already"), "said already"),
        (KeyError(), "unexpected KeyError: no message"),
    ],
)
def test_other_errors_are_said_in_words(error: BaseException, part: str) -> None:
    assert part in explain(error)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
        ("http://127.0.0.1:8545/", "http://127.0.0.1:8545"),
        ("https://main.example/v3/KEY", "https://main.example/…"),
        ("https://user:KEY@main.example", "https://main.example/…"),
        ("https://main.example?key=KEY", "https://main.example/…"),
        ("http://[::1]:8545/KEY", "http://[::1]:8545/…"),
        ("nonsense KEY", "://?/…"),
        ("http://user:KEY@127.0.0.1:65536", "a malformed URL"),
        ("http://[::1/KEY", "a malformed URL"),
    ],
)
def test_urls_are_masked(url: str, shown: str) -> None:
    assert mask_url(url) == shown
    assert "KEY" not in explain(RuntimeError(f"could not reach {url} today")) or "://" not in url


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "ftp://main.example", "http://", "http://?x", "http://:8545", "http://x:65536", "http://[::1"],
)
def test_what_is_no_rpc_url_is_wrong_use(url: str) -> None:
    with pytest.raises(RpcUrlError, match="is no RPC URL: it must be http") as refused:
        connect(url)
    assert refused.value.exit_status == USAGE


def test_coins_are_exact() -> None:
    assert [coins(10**18), coins(1), coins(0), coins(25 * 10**17)] == ["1", "0.000000000000000001", "0", "2.5"]
    assert coins(100 * 10**18) == "100"


def test_nested_json_cannot_end_the_process() -> None:
    """In a process of its own, as it would not survive a failure."""
    code = (
        "import sapo_verifier.chain.reader, sapo_verifier.chain.deploying, sapo_client.transactions.outbox, json\n"
        "try: json.loads('[' * 100_000)\n"
        "except RecursionError: print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "refused\n", done.stderr


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        ({"code": -32005, "message": "limit exceeded"}, True),
        ({"code": -32603, "message": ""}, True),
        ({"code": -32000, "message": "Header Not Found"}, True),
        ({"code": -32000, "message": "the backend is temporarily unavailable"}, True),
        ({"message": "Too Many Requests"}, True),
        ({"code": -32603, "message": "VM Exception: revert"}, False),
        ({"code": -32005, "message": "", "data": {"data": "0x08c379a0"}}, False),
        ({"code": 3, "message": "execution reverted"}, False),
        ({"code": -32000, "message": "insufficient funds for gas * price + value"}, False),
        ({"code": -32601, "message": "the method does not exist"}, False),
        ({"code": None, "message": None}, False),
    ],
)
def test_which_errors_pass(error: dict[str, object], passing: bool) -> None:
    assert is_passing(error) is passing


def test_an_error_of_null_beside_a_result_is_none() -> None:
    answer = {"jsonrpc": "2.0", "id": 3, "result": "0x5", "error": None}
    assert one(answer, "eth_blockNumber", 3)["result"] == "0x5"
    for wrong in ({"id": 3, "error": None}, {"id": 3, "result": "0x5", "error": {"message": "no"}}):
        with pytest.raises(BadResponseFormat):
            one(wrong, "eth_blockNumber", 3)


def test_what_is_about_no_batch_names_no_number() -> None:
    words = explain(revert("NothingToSettle", "0x" + "11" * 20, 5, NO_BATCH))
    assert "(batch none)" in words
    assert "(batch 7)" in explain(revert("NothingToSettle", "0x" + "11" * 20, 5, 7))


@pytest.mark.parametrize("words", ["missing trie node 12ab (path )", "historical state 0x12 is not available"])
def test_a_pruned_node_is_said_to_be_one(words: str) -> None:
    assert "archive node" in explain_rpc_error({"code": -32000, "message": words})
