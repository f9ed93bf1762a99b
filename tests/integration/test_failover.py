"""Several RPCs: who fails, lags or is of another chain is left, and comes back when it is well; real proxies."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rpcs import World, two_rpcs
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.networks import Network
from sapo_devnet.testkit.relay import Relay
from sapo_verifier import cli
from sapo_verifier.chain import failover, rpc
from sapo_verifier.chain.errors import ChainMismatch, ChainReset, ChainUnavailable, Refused, RpcUrlError
from sapo_verifier.chain.events import pages
from sapo_verifier.chain.reader import ChainReader, open_chain

NODE = "0x" + "22" * 20
DEAD = "http://127.0.0.1:9"
ERRORS: dict[str, dict[str, Any]] = {
    "limit": {"code": -32005, "message": "daily request count exceeded"},
    "internal": {"code": -32603, "message": "Internal error"},
    "rate": {"code": -32016, "message": "over the rate"},
    "header": {"code": -32000, "message": "header not found"},
}


@pytest.fixture
def world(network: Network) -> Iterator[World]:
    with two_rpcs(network) as made:
        yield made


def slow(method: str, params: Any) -> dict[str, Any]:
    time.sleep(1.0)
    return {"code": 1, "message": "nobody hears it any more"}


def break_(world: World, kind: str) -> None:
    """The first RPC, from here on."""
    if kind in ERRORS:
        world.first.fault = lambda method, params: ERRORS[kind]
    elif kind == "slow":
        world.first.fault = slow
    elif kind == "garbage":
        world.always(world.first, 200, b"<html>")
    elif kind == "another answer":
        world.always(world.first, 200, b'{"jsonrpc": "2.0", "id": 77, "result": "0x1"}')
    else:
        world.always(world.first, int(kind), b"")


KINDS = {
    "429": "answered HTTP 429",
    "500": "answered HTTP 500",
    "401": "answered HTTP 401",
    "302": "answered HTTP 302",
    "garbage": "is no Ethereum RPC (the answer is not JSON)",
    "another answer": "is no Ethereum RPC",
    "slow": "did not answer in time",
    **dict.fromkeys(ERRORS, "has no answer now"),
}


@pytest.mark.parametrize(("kind", "words"), KINDS.items(), ids=KINDS)
def test_the_next_one_answers_and_the_first_one_when_it_is_well_again(
    world: World, caplog: pytest.LogCaptureFixture, kind: str, words: str
) -> None:
    reader = world.reader
    head = reader.block_number()
    assert reader.rpc_url == world.first.url
    break_(world, kind)
    assert reader.block_number() == head
    assert reader.rpc_url == world.second.url
    assert [info.node for info in reader.nodes_of([NODE] * 30)] == [NODE] * 30
    (said,) = [record.getMessage() for record in caplog.records]
    assert f"{world.first.url} {words}" in said
    assert f"{world.second.url} is asked instead" in said

    world.now += failover.LOOK_SECONDS
    reader.block_number()
    assert reader.rpc_url == world.second.url, "a look finds that the first one is still not well"
    world.mend(world.first)
    world.now += 60
    reader.block_number()
    assert reader.rpc_url == world.first.url


@pytest.mark.parametrize("kind", ["429", "slow", "garbage", "limit"])
def test_several_reads_at_once_go_to_the_next_one_too(world: World, kind: str) -> None:
    assert world.reader.nodes_of([NODE])
    break_(world, kind)
    assert len(world.reader.nodes_of([NODE] * 30)) == 30
    assert world.reader.rpc_url == world.second.url


def test_a_refusal_is_an_answer(world: World) -> None:
    world.reader.check()
    world.always(world.first, 500, b"")
    world.second.fault = lambda method, params: {"code": 3, "message": "no"} if method == "eth_call" else None
    with pytest.raises(Refused):
        world.reader.nodes_of([NODE])
    assert world.reader.rpc_url == world.second.url, "the first one rests"


def test_a_connection_that_breaks_and_one_that_is_refused(world: World) -> None:
    with Relay(world.network.chain.url) as relay:
        reader = world.over(DEAD, relay.url, world.second.url)
        reader.check()
        assert reader.rpc_url == relay.url
        relay.cut()
        reader.check()
        assert reader.rpc_url == world.second.url


def test_where_all_are_away_one_line_names_each_without_its_secrets(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    first = world.first.url.replace("http://", "http://user:hunter2@") + "/v3/hunter2"
    reader = world.over(first, f"{world.second.url}/?key=hunter2", f"{DEAD}/hunter2")
    reader.check()
    assert reader.rpc_url == first
    world.always(world.first, 429, b"")
    world.always(world.second, 200, b"hunter")
    for read in (reader.block_number, reader.check_not_reset, lambda: reader.nodes_of([NODE])):
        with pytest.raises(ChainUnavailable) as failed:
            read()
        assert str(failed.value) == (
            f"none of the chain's RPCs answers: {world.first.url}/… answered HTTP 429; {world.second.url}/… is no "
            f"Ethereum RPC (the answer is not JSON); {DEAD}/… refuses the connection. "
            "Start one of them, or name others ([chain] rpc, --rpc)"
        )
        assert failed.value.__suppress_context__
    world.mend(world.second)
    assert reader.block_number() > 0, "who rests is asked all the same where nobody else answers"
    assert "hunter2" not in caplog.text + str(failed.value) + repr(failed.value) + reader.where


# -- the right chain ---------------------------------------------------------------------------------------------------


def test_another_chain_is_never_used_and_said_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with anvil("--chain-id", "77") as other:
        world.first.target = other.url
        reader = world.reader
        for _ in range(20):
            reader.check()
            assert reader.rpc_url == world.second.url
            world.now += 20
        assert set(world.asked[world.first.url]) <= {"eth_chainId", "eth_blockNumber", "eth_getBlockByNumber"}
        assert caplog.text.count("is chain 77, but the deployment file is of chain 31337") == 1

        world.always(world.second, 500, b"")
        with pytest.raises(ChainUnavailable, match=r"is of another chain, or not there yet; .* HTTP 500"):
            reader.block_number()
        world.mend(world.second)
        world.second.target = other.url
        with pytest.raises(ChainMismatch, match=r"is chain 77, but .* chain 31337"):
            reader.block_number()
        world.first.target = world.network.chain.url
        assert reader.block_number() > 0
        assert reader.rpc_url == world.first.url


def test_a_chain_with_the_same_id_is_not_the_same_chain(world: World) -> None:
    with anvil() as other:
        other.mine(100)
        world.first.target = other.url
        world.reader.check()
        assert world.reader.rpc_url == world.second.url
        world.second.target = other.url
        with pytest.raises(ChainReset, match="is not the one this network was deployed on"):
            world.reader.check_not_reset()


def test_an_rpc_that_becomes_another_chains_is_left_by_the_check_of_each_pass(world: World) -> None:
    reader = world.reader
    reader.check()
    with anvil() as other:
        world.first.target = other.url
        reader.check_not_reset()
        assert reader.rpc_url == world.second.url


# -- how far they are --------------------------------------------------------------------------------------------------


def test_one_that_lags_is_left_until_it_has_caught_up(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.network.chain.mine(20)
    reader, head = world.reader, world.network.chain.block_number()
    assert reader.block_number() == head
    world.lag(world.first, failover.LAG_BLOCKS)
    world.now += failover.LOOK_SECONDS
    assert reader.block_number() == head - failover.LAG_BLOCKS, "a few blocks are no reason"
    world.lag(world.first, failover.LAG_BLOCKS + 1)
    world.now += failover.LOOK_SECONDS
    assert reader.block_number() == head
    assert reader.rpc_url == world.second.url
    assert f"{world.first.url} is more than {failover.LAG_BLOCKS} blocks behind" in caplog.text
    for _ in range(20):
        world.now += 7
        assert reader.block_number() == head, "it stays with the one that it chose"
    world.mend(world.first)
    world.now += 60
    reader.block_number()
    assert reader.rpc_url == world.first.url


def test_one_that_is_behind_from_the_start_is_not_used(world: World) -> None:
    world.network.chain.mine(20)
    world.lag(world.first, 9)
    assert world.reader.block_number() == world.network.chain.block_number()
    world.always(world.second, 500, b"")
    assert world.reader.block_number() == world.network.chain.block_number() - 9, "better than nobody"


def test_blocks_that_come_while_all_are_asked_make_nobody_late(world: World) -> None:
    """The second one is asked after 20 blocks that the first one did not have yet when it was asked."""
    chain, done = world.network.chain, []

    def mine(method: str, params: Any) -> None:
        if not done:
            time.sleep(0.2)
            chain.mine(20)
            done.append(method)

    world.second.fault = mine
    world.reader.block_number()
    assert done
    assert world.reader.rpc_url == world.first.url


def test_the_others_are_asked_now_and_then_and_one_alone_never(world: World) -> None:
    world.reader.block_number()
    before = world.second.requests
    for _ in range(50):
        world.reader.block_number()
        world.now += 0.25
    assert world.second.requests == before
    world.now += failover.LOOK_SECONDS
    world.reader.block_number()
    assert world.second.requests == before + 1

    alone, before = ChainReader([world.second.url], world.network.deployment), world.second.requests
    for _ in range(5):
        alone.block_number()
    assert world.second.requests == before + 5
    alone.close()


@pytest.mark.parametrize("kind", ["502", "in other words each time"])
def test_two_minutes_of_flapping_are_few_lines(world: World, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    changes, url = 0, ""

    def busy(method: str, params: Any) -> dict[str, Any]:
        return {"code": -32005, "message": f"limit exceeded, retry after {time.time()}"}

    for second in range(120):
        if second % 10 == 0:
            world.mend(world.first)
        elif second % 10 == 5 and kind == "502":
            world.always(world.first, 502, b"")
        elif second % 10 == 5:
            world.first.fault = busy
        world.reader.block_number()
        changes, url = changes + (world.reader.rpc_url != url), world.reader.rpc_url
        world.now += 1
    assert 2 < changes <= 12
    assert len(caplog.records) == 1, caplog.text
    world.mend(world.first)
    for _ in range(200):
        world.reader.block_number()
        world.now += 1
    assert [f"the chain's RPC at {world.first.url} is used again, after" in r.getMessage() for r in caplog.records] == [
        False,
        True,
    ]


def test_one_that_stays_away_is_asked_ever_more_seldom(world: World) -> None:
    asked: list[float] = []

    def away(body: bytes) -> tuple[int, bytes]:
        asked.append(world.now)
        return 502, b""

    world.reader.check()
    world.first.answer = away  # type: ignore[method-assign]
    for _ in range(300):
        world.reader.block_number()
        world.now += 2
    times = sorted(set(asked))
    assert 5 < len(times) < 18
    assert all(60 <= later - sooner <= 75 for sooner, later in zip(times[-5:], times[-4:], strict=False))


# -- what is special ---------------------------------------------------------------------------------------------------


def test_old_state_that_nobody_keeps_is_nobodys_fault(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def gone(method: str, params: Any) -> dict[str, Any] | None:
        return {"code": -32000, "message": "missing trie node 5f"} if method == "eth_getBalance" else None

    world.first.fault = world.second.fault = gone
    with pytest.raises(rpc.NotNow, match=r"none of the chain's RPCs answers: .*does not keep the state of that block"):
        world.reader.w3.eth.get_balance(world.network.chain.account(1).address, 1)
    assert world.reader.block_number() > 0
    assert world.reader.rpc_url == world.first.url
    assert caplog.text == ""
    world.always(world.first, 500, b"")
    with pytest.raises(rpc.NotNow):
        world.reader.w3.eth.get_balance(world.network.chain.account(1).address, 1)


def test_logs_are_asked_for_in_smaller_pieces_before_another_is_asked(world: World) -> None:
    world.network.chain.mine(10)
    honest, most = world.first.answer, 4

    def capped(body: bytes) -> tuple[int, bytes]:
        request = json.loads(body)
        if isinstance(request, dict) and request["method"] == "eth_getLogs":
            start, end = (int(request["params"][0][key], 16) for key in ("fromBlock", "toBlock"))
            if end - start >= most:
                return 500, b""
        return honest(body)

    world.first.answer = capped  # type: ignore[method-assign]
    assert list(pages(world.reader, None))
    assert world.reader.rpc_url == world.first.url
    most = 0
    assert list(pages(world.reader, None)), "not even one block"
    assert world.reader.rpc_url == world.second.url


def test_what_is_no_url_is_refused_whichever_it_is(network: Network) -> None:
    with pytest.raises(RpcUrlError, match="is no RPC URL"):
        network.reader([network.chain.url, "localhost:8545"])  # type: ignore[arg-type]
    with pytest.raises(RpcUrlError, match="no RPC is named"):
        ChainReader([], network.deployment)
    with open_chain(network.deployment, [network.chain.url] * 2) as twice:
        assert isinstance(twice.w3.provider, rpc.QuietProvider), "one that is named twice is one"


def test_the_auditors_commands_take_several(
    network: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network.mine_to_round(0)
    network.deployment.save(tmp_path / "deployment.json")
    words = ["round", "0", "--no-fetch", "--deployment", str(tmp_path / "deployment.json")]
    assert cli.main([*words, "--rpc", DEAD, "--rpc", network.chain.url]) == 0
    file = tmp_path / "rpcs"
    file.write_text(f"# mine\n\n  {network.chain.url}  \n")
    file.chmod(0o600)
    assert cli.main([*words, "--rpc", f"{DEAD}/hunter2", "--rpc-file", str(file)]) == 0
    file.chmod(0o644)
    assert cli.main([*words, "--rpc-file", str(file)]) == 2
    said = capsys.readouterr()
    assert "can be read or changed by other users (mode 0644)" in said.err
    assert "hunter2" not in said.err + said.out
