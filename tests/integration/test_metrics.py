"""A running node on a devnet, observed: metrics and health over HTTP, what is asked of them, and its webhook."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sapo_client.training.metrics import STEP
from sapo_devnet.chain import FUNDS
from sapo_devnet.checkout import ROOT
from sapo_devnet.nodes import DevnetNode
from sapo_devnet.testkit.alive import wait_until
from sapo_devnet.testkit.faulty_rpc import FaultyRpc, faulty_rpc
from sapo_devnet.testkit.swarm import Swarm, sapo, swarm
from sapo_devnet.testkit.tiny_policy import tiny_folder
from tools import needs
from webhooks import Receiver, receiving

OPERATOR = ROOT / "scripts" / "operator"
PLAYED = 4  # so that others have judged batches
# What a policy that knows nothing, and so has no group with an advantage, cannot show.
UNKNOWN = {"sapo_external_age_rounds", *(metric.name for metric in STEP)}


class Observed:
    """A node, the proxy before its RPC, and who is told of its health."""

    def __init__(self, net: Swarm, node: DevnetNode, rpc: FaultyRpc, receiver: Receiver) -> None:
        self.net, self.node, self.rpc, self.receiver = net, node, rpc, receiver

    def ask(self, path: str) -> tuple[int, str]:
        try:
            with urlopen(self.node.status()["metrics"] + path, timeout=15) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def health(self) -> tuple[int, dict[str, Any]]:
        status, body = self.ask("/healthz")
        return status, json.loads(body)

    def metrics(self) -> dict[str, dict[str, float]]:
        """By the name as it is asked for, then by the label's value."""
        found: dict[str, dict[str, float]] = {}
        for family in text_string_to_metric_families(self.ask("/metrics")[1]):
            for sample in family.samples:
                found.setdefault(sample.name, {})["".join(sample.labels.values())] = sample.value
        return found


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """One of two nodes; round PLAYED is played and goes on."""
    folder, receiver = tmp_path_factory.mktemp("observed"), Receiver(200)
    with (
        swarm(folder, tiny_folder(folder / "random")) as net,
        receiving(receiver) as url,
        faulty_rpc(net.chain.url, lambda method, params: None) as rpc,
    ):
        node = net.add(rpc=rpc.url)
        net.add()
        node.start("--set", "metrics.port=0", "--webhook", url)
        net.nodes[1].start()
        net.begin()
        net.play_to(PLAYED)
        net.serve_until("the round is played", lambda: all(each.done(PLAYED) for each in net.nodes))
        yield Observed(net, node, rpc, receiver)


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:sapo|process)_[a-z_]+\b", expression))


def asked_names() -> set[str]:
    """By the dashboard and the alerts."""
    dashboard = json.loads((OPERATOR / "grafana.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    expressions += [variable.get("definition", "") for variable in dashboard["templating"]["list"]]
    rules = re.sub(r"(?m)^\s*(#|summary:).*$", "", (OPERATOR / "alerts.yaml").read_text())
    return set().union(*map(names_in, expressions), names_in(rules))


def test_health_is_what_status_says(observed: Observed) -> None:
    status, found = observed.health()
    assert (status, found["healthy"], found["reasons"]) == (200, True, [])
    said = json.loads(sapo("status", "--json", "--home", observed.node.home).stdout)
    still = {"phase_seconds", "updated_seconds_ago"}
    assert {k: v for k, v in found.items() if k not in still} == {k: v for k, v in said.items() if k not in still}


def test_metrics_say_what_the_node_and_the_chain_know(observed: Observed) -> None:
    observed.health()  # so that the last look is new
    found, reports, net = observed.metrics(), observed.node.rounds(), observed.net
    assert found["sapo_rounds_total"] == {"published": PLAYED, "skipped": 1}, "round 0 has no policy"
    assert sum(found["sapo_completions_total"].values()) == sum(report["completions"] for report in reports)
    assert found["sapo_generated_tokens_total"][""] == sum(report["positions"] for report in reports)
    assert found["sapo_step_seconds_total"]["training"] == pytest.approx(sum(r["seconds_training"] for r in reports))
    assert found["sapo_commonest_completion_ratio"][""] == reports[-1]["commonest"]
    assert 1.0 < found["sapo_policy_entropy_nats"][""] < 4.0, "of a random policy"
    assert found["sapo_peers_asked"][""] == found["sapo_peers_reached"][""] == 1
    assert found["sapo_phase"]["waiting for the next round"] == sum(found["sapo_phase"].values()) == 1
    assert found["sapo_round"][""] == found["sapo_done_round"][""] == found["sapo_chain_round"][""] == PLAYED
    assert found["sapo_healthy"][""] == 1
    balance = net.reader.balance(observed.node.address)
    assert found["sapo_balance_coins"][""] == pytest.approx(balance / 10**18)
    assert found["sapo_bond_coins"][""] == found["sapo_bond_asked_coins"][""]
    spent = (FUNDS - balance) / 10**18 - found["sapo_bond_coins"][""]
    assert found["sapo_fees_coins_total"][""] == pytest.approx(spent)
    assert found["sapo_gas_used_total"][""] > 1_000_000
    assert found["sapo_verdicts_given"]["accept"] > 0
    assert found["sapo_verdicts_received"]["accept"] > 0
    assert found["process_resident_memory_bytes"][""] > 1e8


def test_top_shows_the_same_on_no_terminal(observed: Observed) -> None:
    done = sapo("top", "--once", "--home", observed.node.home)
    assert done.returncode == 0, done.stderr
    lines = {line[:14].strip(): line[14:] for line in done.stdout.splitlines()}
    assert lines["node"] == f"{observed.node.address}, healthy"
    assert lines["round"] == f"{PLAYED}, the chain is in {PLAYED}"
    assert lines["runway"].endswith("coins, the bond is 1")
    assert "batches are not final" in lines["pay to come"]
    assert lines["peers"] == f"1 of 1 reached in round {PLAYED}"
    assert "\x1b" not in done.stdout


def test_what_dashboard_and_alerts_ask_for_is_there(observed: Observed) -> None:
    page = observed.ask("/metrics")[1]
    assert {name for name in asked_names() if name.startswith("sapo_training_")} < UNKNOWN
    assert asked_names() - UNKNOWN <= set(re.findall(r"(?m)^# TYPE (\S+)", page))
    assert set(re.findall(r"(?m)^# TYPE (sapo_\S+)", page)) - asked_names() <= {
        "sapo_right_completions_total", "sapo_completions_total", "sapo_external_groups_drawn_total",
        "sapo_external_groups_fetched_total", "sapo_external_groups_checked_total", "sapo_policy_passes_seconds_total",
        "sapo_external_groups_with_advantage_total", "sapo_start_timestamp_seconds", "sapo_progress_timestamp_seconds",
        "sapo_phase_seconds", "sapo_unhealthy_reasons", "sapo_transactions", "sapo_pay_held_tokens",
        "sapo_pay_last_round_tokens", "sapo_batches_not_final", "sapo_recomputed_completions_total",
        "sapo_policy_load_seconds_total", "sapo_policy_merge_seconds_total",
    }, "a new metric belongs on the dashboard, or here"  # fmt: skip


@needs("promtool")
def test_promtool_finds_nothing_to_say_of_the_page(observed: Observed) -> None:
    page = observed.ask("/metrics")[1]
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_an_rpc_that_hangs_is_told_within_ten_seconds_and_to_the_webhook(observed: Observed) -> None:
    """And metrics answer meanwhile. Afterwards all is well again."""
    observed.health()
    assert observed.receiver.taken == [], "it started, and was well"
    hangs = True

    def hang(method: str, params: Any) -> None:
        while hangs:
            time.sleep(0.1)

    observed.rpc.fault = hang
    time.sleep(5.0)  # until the last look is old
    started = time.monotonic()
    status, found = observed.health()
    assert time.monotonic() - started < 10.0
    assert status == 503
    assert "did not answer" in found["reasons"][0]
    started = time.monotonic()
    assert observed.metrics()["sapo_healthy"][""] == 0
    assert time.monotonic() - started < 2.0
    wait_until("the webhook is told", lambda: observed.receiver.taken, seconds=15)
    told = observed.receiver.taken[0]
    assert (told["node"], told["round"], told["healthy"]) == (observed.node.address, PLAYED, False)
    assert told["appeared"] == found["reasons"]

    hangs = False
    wait_until("it is well again", lambda: observed.health()[0] == 200, seconds=60)
    wait_until("the webhook is told", lambda: observed.receiver.taken[-1]["healthy"], seconds=15)
