"""What `sapo doctor` says of drand's relays and of the length of a round."""

import time
from types import SimpleNamespace
from typing import Any

from sapo_client.node.checkup_beacon import beacon_lines
from sapo_devnet import drand


def deployment(rules: Any = drand.RULES) -> Any:
    return SimpleNamespace(drand=rules, spec=SimpleNamespace(chain=SimpleNamespace(round_blocks=64)))


def test_nothing_is_said_of_block_hashes() -> None:
    assert list(beacon_lines(["http://127.0.0.1:1"], deployment(None), 12.0)) == []


def test_a_relay_that_does_not_answer_is_a_warning_beside_one_that_does() -> None:
    relay = drand.Relay(time.time)
    try:
        good, bad = beacon_lines([relay.url, "http://127.0.0.1:1"], deployment(), 12.0)
        assert (good.level, good.what) == ("ok", f"drand {relay.url}")
        assert "has the signature of round" in good.words
        assert (bad.level, "does not answer" in bad.words) == ("warning", True)
    finally:
        relay.close()


def test_it_is_bad_that_none_answers_or_none_is_named() -> None:
    relay = drand.Relay(lambda: 0.0)  # for which nothing is signed yet
    try:
        lines = list(beacon_lines([relay.url, "http://127.0.0.1:1"], deployment(), None))
        assert [(line.level, line.unable) for line in lines] == [("bad", True)] * 2
        assert "has no round" in lines[0].words
    finally:
        relay.close()
    (line,) = beacon_lines([], deployment(), None)
    assert (line.level, "no relay is named: set [chain] drand_relays" in line.words) == ("bad", True)


def test_a_round_that_is_too_short_is_a_warning() -> None:
    line = next(iter(beacon_lines([], deployment(), 1.0)))
    assert (line.level, "half a round takes 31 s" in line.words) == ("warning", True)
