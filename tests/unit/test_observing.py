"""What observes a running node, part by part: bounded pages, sums of rounds, a webhook with patience and a bound."""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from sapo_client.duties.ballots import Ballot, BallotBox, Deal
from sapo_client.duties.metrics import Earned, verdicts_given
from sapo_client.node.observing.observer import Pages
from sapo_client.node.observing.reported import Reported
from sapo_client.node.observing.server import LIMITS, Page, Server
from sapo_client.node.observing.webhook import Webhook
from sapo_client.state.report import RoundReport, StatusFile, compact_rounds, read_status
from sapo_client.state.settings import AlertSettings, MetricsSettings
from sapo_devnet.testkit.alive import wait_until
from sapo_verifier.errors import SapoError
from sapo_verifier.net.listener import Limits
from webhooks import SECRET, Receiver, receiving


def ask(url: str, method: str = "GET") -> tuple[int, str]:
    try:
        with urlopen(Request(url, method=method), timeout=10) as answer:  # noqa: S310 - loopback
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@contextmanager
def serving(pages: dict[str, Callable[[], Page]], limits: Limits = LIMITS) -> Iterator[Server]:
    made = Server("127.0.0.1", 0, pages, limits)
    made.open()
    try:
        yield made
    finally:
        made.close()


def broken() -> Page:
    raise ValueError("no page")


def test_two_pages_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    with serving({"/metrics": lambda: Page(b"sapo_round 3\n"), "/healthz": broken}) as server:
        assert ask(f"{server.url}/metrics") == (200, "sapo_round 3\n")
        assert ask(f"{server.url}/metrics?x=1", "HEAD") == (200, "")
        assert ask(f"{server.url}/healthz")[0] == 500
        assert "the page /healthz cannot be made" in caplog.text
        assert ask(f"{server.url}/") == (404, "here are /metrics and /healthz\n")
        assert ask(f"{server.url}/metrics/../node.toml")[0] == 404
        assert ask(f"{server.url}/metrics", "POST")[0] == 405


def test_slow_and_endless_requests_hold_few_places_and_not_for_long() -> None:
    with serving({"/metrics": lambda: Page(b"x")}, replace(LIMITS, idle=1.0)) as server:
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        slow = [socket.create_connection(address) for _ in range(3 * LIMITS.connections)]
        for connection in slow[: LIMITS.connections]:
            connection.sendall(b"GET /met")
        assert not _answers(server.url), "all places are taken"
        wait_until("who asks in time is answered again", lambda: _answers(server.url), seconds=5)
        with socket.create_connection(address) as endless:
            endless.sendall(b"x" * 20_000)
            assert b" 400 " in endless.recv(100), "8 KiB are read of it"
        for connection in slow:
            connection.close()


def test_a_page_that_hangs_holds_its_place_not_for_long() -> None:
    over = threading.Event()

    def hangs() -> Page:
        over.wait(10)
        return Page(b"")

    with serving({"/metrics": lambda: Page(b"x"), "/healthz": hangs}, replace(LIMITS, request=0.5)) as server:
        with pytest.raises(OSError, match=r"without response|reset"):
            ask(f"{server.url}/healthz")
        assert _answers(server.url)
        over.set()


def _answers(url: str) -> bool:
    try:
        return ask(f"{url}/metrics") == (200, "x")
    except OSError:
        return False


def test_a_taken_port_is_told_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    server = Server("127.0.0.1", port, {"/metrics": lambda: Page(b"x")})
    pages = Pages(server, MetricsSettings(port=port), StatusFile(tmp_path))
    pages.open()
    assert f"port {port}: " in caplog.text
    assert "address already in use" in caplog.text.lower()
    assert "the node plays on without /metrics" in caplog.text
    taken.close()
    pages.open()
    pages.open()
    assert ask(f"{server.url}/metrics") == (200, "x")
    assert (read_status(tmp_path) or {})["metrics"] == server.url
    pages.close()
    assert not _answers(f"http://127.0.0.1:{port}")


def test_counters_count_from_the_start_and_gauges_begin_with_what_is_known(tmp_path: Path) -> None:
    RoundReport(1, completions=8, reward=2, datasets={"gcd": [2, 8]}, positions=50, external_age=1.5).append_to(
        tmp_path
    )
    reported = Reported(tmp_path)
    reported.look()
    values = reported.values
    assert values["sapo_generated_tokens_total"] == 0
    assert "sapo_completions_total" not in values
    assert values["sapo_reward_ratio"] == {"gcd": 0.25}
    RoundReport(2, datasets={"gcd": [1, 4], "lcm": [4, 4]}, positions=7, seconds_generating=2.0).append_to(tmp_path)
    RoundReport(3, datasets={"gcd": [3, 4]}, positions=5, skipped="late").append_to(tmp_path)
    with (tmp_path / "rounds.jsonl").open("ab") as file:
        file.write(b'{"round": 4, "posi')
    for _ in range(2):
        reported.look()
        assert values["sapo_completions_total"] == {"gcd": 8, "lcm": 4}
        assert values["sapo_right_completions_total"] == {"gcd": 4, "lcm": 4}
        assert values["sapo_generated_tokens_total"] == 12
        assert values["sapo_generated_tokens_per_second"] == 3.5
        assert values["sapo_rounds_total"] == {"published": 1, "skipped": 1}
        assert values["sapo_external_age_rounds"] == 1.5, "what no later round knows"


def test_a_file_that_was_compacted_counts_nothing_twice(tmp_path: Path) -> None:
    reported = Reported(tmp_path)
    for round_ in range(6):
        RoundReport(round_, positions=1).append_to(tmp_path)
    reported.look()
    compact_rounds(tmp_path, 3)
    RoundReport(6, positions=1).append_to(tmp_path)
    reported.look()
    assert reported.values["sapo_generated_tokens_total"] == 7


def test_pay_counts_from_the_first_look_that_got_as_far() -> None:
    earned = Earned()
    earned.look({})
    earned.look({"pay": {3: 100, 4: 100}})
    earned.look({"pay": {4: 100, 5: 30}})
    earned.look({"pay": {4: 100, 5: 30, 6: 2}})
    assert earned.amount == 32
    new = Earned()
    new.look({"pay": {}})  # no round is final yet
    new.look({"pay": {0: 7}})
    assert new.amount == 7


def test_verdicts_given_are_counted_by_kind(tmp_path: Path) -> None:
    path = tmp_path / "ballots.sqlite"
    assert set(verdicts_given(path).values()) == {0.0}
    box = BallotBox(path)
    box.put(Ballot(Deal(1, 1, bytes(32), bytes(32)), 0b01_00_01, b"", bytes(32)))
    box.put(Ballot(Deal(2, 1, bytes(32), bytes(32)), 0b11_10_01, b"", bytes(32)))
    assert verdicts_given(path) == {"accept": 3, "reject": 1, "void": 1}
    box.close()


@contextmanager
def told(url: str, **options: Any) -> Iterator[Webhook]:
    webhook = Webhook(url, first=0.01, **options)
    webhook.start()
    try:
        yield webhook
    finally:
        started = time.monotonic()
        webhook.stop()
        assert time.monotonic() - started < 3.0, "a node ends at once, whatever the other side does"


def condition(*reasons: str, phase: str = "voting") -> dict[str, Any]:
    return {"node": "0xab", "round": 7, "phase": phase, "healthy": not reasons, "reasons": list(reasons)}


def test_a_webhook_is_told_what_appears_and_what_vanishes_and_nothing_else() -> None:
    receiver = Receiver(200)
    with receiving(receiver) as url, told(url) as webhook:
        webhook.tell(condition())
        webhook.tell(condition("it is still starting (3 s)", phase="starting"))
        webhook.tell(condition("the transaction a waits for 60 s", f"http://rpc.example/{SECRET} is away"))
        wait_until("it is told", lambda: len(receiver.taken) == 1, seconds=10)
        webhook.tell(condition("the transaction a waits for 90 s", f"http://rpc.example/{SECRET} is away"))
        webhook.tell(condition("the transaction a waits for 120 s"))
        wait_until("it is told", lambda: len(receiver.taken) == 2, seconds=10)
        webhook.tell(condition())
        wait_until("it is told", lambda: len(receiver.taken) == 3, seconds=10)
    first, second, third = receiver.taken
    assert (first["node"], first["round"], first["healthy"]) == ("0xab", 7, False)
    assert first["appeared"] == first["reasons"] == ["the transaction a waits for 60 s", "http://rpc.example/… is away"]
    assert (second["appeared"], second["vanished"]) == ([], ["http://rpc.example/… is away"])
    assert (third["healthy"], third["reasons"], len(third["vanished"])) == (True, [], 1)
    assert SECRET not in json.dumps(receiver.taken)


def test_a_webhook_that_fails_is_tried_again_and_no_log_has_its_key(caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver(500, 503, 302, 200)
    with receiving(receiver) as url, told(url) as webhook:
        webhook.tell(condition("no coins"))
        wait_until("it is told", lambda: len(receiver.taken) == 1, seconds=10)
    assert receiver.tries == 4
    assert "did not take a change of health: it answered 500" in caplog.text
    assert SECRET not in caplog.text


def test_a_webhook_that_takes_nothing_is_given_up_until_the_next_change(caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver(500)
    with receiving(receiver) as url, told(url, tries=3) as webhook:
        for seconds in (1, 2, 3):
            webhook.tell(condition(f"no coins for {seconds} s"))
            wait_until("the tries are used up", lambda: "the last of 3 tries" in caplog.text, seconds=10)
        assert receiver.tries == 3
        receiver.statuses = [200]
        webhook.tell(condition("no coins for 9 s", "no blocks"))
        wait_until("it is told", lambda: len(receiver.taken) == 1, seconds=10)
    assert receiver.taken[0]["appeared"] == ["no coins for 9 s", "no blocks"]


def test_a_webhook_that_never_answers_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with caplog.at_level(logging.WARNING), told(url, seconds=0.3, tries=2) as webhook:
            started = time.monotonic()
            webhook.tell(condition("no coins"))
            assert time.monotonic() - started < 0.1
            wait_until("it is given up", lambda: "the last of 2 tries" in caplog.text, seconds=10)


def test_where_a_webhook_is_written(tmp_path: Path) -> None:
    assert AlertSettings().url(tmp_path) is None
    assert AlertSettings(webhook="https://a.example/x").url(tmp_path) == "https://a.example/x"
    file = tmp_path / "hook"
    file.write_text("https://b.example/x\n")
    file.chmod(0o644)
    settings = AlertSettings(webhook_file=Path("hook"))
    with pytest.raises(SapoError, match="can be read or changed by other users"):
        settings.url(tmp_path)
    file.chmod(0o400)
    assert settings.url(tmp_path) == "https://b.example/x"
    file.chmod(0o600)
    file.write_text("nothing\n")
    with pytest.raises(SapoError, match="the first line of the webhook file"):
        settings.url(tmp_path)
