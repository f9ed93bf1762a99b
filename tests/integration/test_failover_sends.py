"""Transactions over several RPCs: the same bytes go to the next one, once each; a refusal in words goes nowhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outboxes import ENDPOINT, REGISTER, nonce
from rpcs import World, two_rpcs, well
from sapo_client.transactions.outbox import Outbox
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.chain import rpc


@pytest.fixture
def world(network: Network) -> Iterator[World]:
    with two_rpcs(network) as made:
        yield made


@pytest.fixture
def outbox(world: World, tmp_path: Path) -> Iterator[Outbox]:
    world.network.chain.rpc("evm_setAutomine", False)
    made = Outbox(tmp_path / "outbox.sqlite", world.reader, world.network.chain.account(1))
    yield made
    made.close()


def mined(world: World, outbox: Outbox, key: str) -> bool:
    world.network.chain.mine()
    outbox.pump()
    return outbox.state(key).status == "mined"


@pytest.mark.parametrize("taken", [False, True], ids=["before it was taken", "after it was taken"])
def test_a_send_whose_answer_is_lost_goes_to_the_next_one_once(world: World, outbox: Outbox, taken: bool) -> None:
    honest = world.first.answer

    def lose(body: bytes) -> tuple[int, bytes]:
        if b"eth_sendRawTransaction" not in body:
            return honest(body)
        if taken:
            honest(body)
        else:
            world.asked[world.first.url].append("eth_sendRawTransaction")
        return 502, b""

    world.first.answer = lose  # type: ignore[method-assign]
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    assert (world.sends(world.first), world.sends(world.second)) == (1, 1)
    assert outbox.state("register").status == "sent"
    assert outbox.state("register").reason == ""
    assert mined(world, outbox, "register")
    assert nonce(world.network, outbox) == 1


def test_a_refusal_in_words_is_not_taken_to_another(world: World, outbox: Outbox) -> None:
    refusal = {"code": -32603, "message": "Internal error: transaction underpriced"}
    world.first.fault = lambda method, params: refusal if method == "eth_sendRawTransaction" else None
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    assert (world.sends(world.first), world.sends(world.second)) == (1, 0)
    assert "the fee offered is too low" in outbox.state("register").reason
    assert world.reader.rpc_url == world.first.url
    world.first.fault = well
    outbox.pump()
    assert mined(world, outbox, "register")


def test_one_that_is_busy_does_not_hold_a_send_up(world: World, outbox: Outbox) -> None:
    busy = {"code": -32005, "message": "limit exceeded"}
    world.first.fault = lambda method, params: busy if method == "eth_sendRawTransaction" else None
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    assert outbox.state("register").reason == ""
    assert mined(world, outbox, "register")
    world.second.fault = world.first.fault
    outbox.put("endpoint", ENDPOINT)
    outbox.pump()
    assert "limit exceeded" in outbox.state("endpoint").reason, "where all are, it is an answer, and waited for"
    world.first.fault = world.second.fault = well
    outbox.pump()
    assert mined(world, outbox, "endpoint")


def test_a_send_that_is_no_signed_one_goes_to_one_only(world: World) -> None:
    world.reader.check()
    world.always(world.first, 502, b"")
    with pytest.raises(rpc.NoneAnswers):
        world.reader.w3.provider.make_request("eth_sendTransaction", [{}])  # type: ignore[arg-type]
    assert "eth_sendTransaction" not in world.asked[world.second.url]
