"""drand relays: what they answer is read strictly, in both of their styles, and the next one is asked in words."""

import json

import pytest

from sapo_client.duties.relays import PUBLIC, RelayError, Relays, asked, relays_of
from sapo_devnet import drand
from sapo_verifier.bls12381 import g1_of
from sapo_verifier.drand import quicknet

CHAIN = drand.RULES.chain_hash.hex()
ROUND = 1000
SIGNATURE = drand.sign(ROUND)


@pytest.fixture
def relay():
    made = drand.Relay(lambda: drand.RULES.signed_at(ROUND))
    yield made
    made.close()


def body(**changes: object) -> bytes:
    return json.dumps({"round": ROUND, "signature": SIGNATURE.hex(), "randomness": "…"} | changes).encode()


def taken(signature: bytes) -> str:
    return ""


def test_a_signature_comes_as_the_contract_takes_it(relay: drand.Relay) -> None:
    assert asked(relay.url, CHAIN, ROUND) == g1_of(SIGNATURE)
    assert relay.asked == [f"/{CHAIN}/public/{ROUND}"]


def test_both_styles_are_tried_and_what_is_not_signed_yet_is_no_trouble(relay: drand.Relay) -> None:
    assert asked(relay.url, CHAIN, ROUND + 1) is None
    assert relay.asked == [f"/{CHAIN}/public/{ROUND + 1}", f"/v2/chains/{CHAIN}/rounds/{ROUND + 1}"]
    said: list[str] = []
    assert Relays([relay.url], drand.RULES, said.append).signature(ROUND + 1, taken) is None
    assert said == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, b"<html>"), "something else than a round"),
        ((200, b"[]"), "something else than a round"),
        ((200, b'{"round": 1000}'), "something else than a round"),
        ((200, body(round=999)), "another round than the one"),
        ((200, body(signature="ab" * 47)), "has not 48 bytes"),
        ((200, body(signature="ab" * 96)), "has not 48 bytes"),
        ((200, body(signature=5)), "has not 48 bytes"),
        ((200, body(signature="zz" * 48)), "something else than a round"),
        ((200, body(signature="00" * 48)), "no compressed point"),
        ((200, body(more="x" * 5000)), "does not answer"),
        ((500, b""), "answers with HTTP 500"),
        ((302, b""), "answers with HTTP 302"),
    ],
)
def test_what_is_no_signature_is_told_and_the_next_relay_is_asked(
    relay: drand.Relay, answer: tuple[int, bytes], words: str
) -> None:
    bad = drand.Relay(lambda: 0.0)
    try:
        bad.instead = answer
        with pytest.raises(RelayError, match=words):
            asked(bad.url, CHAIN, ROUND)
        said: list[str] = []
        assert Relays([bad.url, relay.url], drand.RULES, said.append).signature(ROUND, taken) == g1_of(SIGNATURE)
        assert [words in told and bad.url in told for told in said] == [True]
    finally:
        bad.close()


def test_a_relay_that_is_not_there_is_passed_over(relay: drand.Relay) -> None:
    said: list[str] = []
    relays = Relays(["http://127.0.0.1:1", relay.url], drand.RULES, said.append)
    assert relays.signature(ROUND, taken) == g1_of(SIGNATURE)
    assert "http://127.0.0.1:1 does not answer" in said[0]


def test_what_the_contract_refuses_is_never_taken(relay: drand.Relay) -> None:
    said: list[str] = []
    assert Relays([relay.url, relay.url], drand.RULES, said.append).signature(ROUND, lambda _: "wrong") is None
    assert len(said) == 2
    assert "gave what the contract refuses: wrong" in said[0]


def test_public_relays_are_those_of_quicknet_and_asked_where_none_are_named() -> None:
    assert relays_of([], quicknet()) == PUBLIC
    assert relays_of(["http://mine"], quicknet()) == ("http://mine",)
    assert relays_of([], drand.RULES) == ()
