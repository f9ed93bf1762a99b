"""What a devnet run leaves: on chain, in the homes and in the summary; one node was killed in its middle."""

import re
from collections import Counter
from typing import Any

import pytest

from devnet_run import KILL_ROUND, KILLED, NODES, ROUNDS, Run
from sapo_client.state.report import read_rounds
from sapo_client.transactions.outbox import Outbox
from sapo_devnet.testkit.swarm import sapo
from sapo_verifier import keystore
from sapo_verifier.chain.events import ChainEvent, pages

Report = dict[str, Any]


@pytest.fixture(scope="module")
def reports(devnet: Run) -> list[Report]:
    return [report | {"node": number} for number in range(NODES) for report in read_rounds(devnet.home(number))]


@pytest.fixture(scope="module")
def events(devnet: Run) -> list[ChainEvent]:
    return [event for page in pages(devnet.reader, None) for event in page.events]


def test_the_summary_says_what_the_chain_says(devnet: Run, events: list[ChainEvent]) -> None:
    submitted = [event.args for event in events if event.name == "BatchSubmitted"]
    summary = devnet.summary
    assert summary["batches"] == summary["batches_expected"] == NODES * ROUNDS
    assert devnet.reader.batch_count() == len(submitted) == NODES * ROUNDS
    assert f"batches published: {NODES * ROUNDS} of {NODES * ROUNDS}" in devnet.output
    assert summary["starts"][f"node{KILLED}"] == 2
    assert f"kill -9 node{KILLED}" in devnet.output


def test_every_node_has_one_batch_per_round_and_indices_are_contiguous(devnet: Run, events: list[ChainEvent]) -> None:
    submitted = [event.args for event in events if event.name == "BatchSubmitted"]
    assert sorted(args["index"] for args in submitted) == list(range(NODES * ROUNDS))
    pairs = Counter((args["node"].lower(), args["round"]) for args in submitted)
    nodes = [address.lower() for address in devnet.summary["nodes"].values()]
    assert pairs == {(node, round_): 1 for node in nodes for round_ in range(1, ROUNDS + 1)}
    for round_ in range(1, ROUNDS + 1):
        info = devnet.reader.round_at(round_)
        batches = devnet.reader.batches_of(round_)
        assert [batch.index for batch in batches] == list(range(info.first, info.first + NODES))
        assert all(devnet.reader.batch_of(batch.node, round_) == batch.index for batch in batches)
    captured = [event.args["round"] for event in events if event.name == "BeaconCaptured"]
    assert captured == list(range(ROUNDS + 1))


def test_reported_rewards_are_the_claims_on_chain(devnet: Run, reports: list[Report]) -> None:
    earned = 0
    for report in reports:
        if report["completions"]:
            node = devnet.summary["nodes"][f"node{report['node']}"]
            index = devnet.reader.batch_of(node, report["round"])
            assert index is not None
            assert devnet.reader.batch_at(index).claim.bit_count() == report["reward"]
            earned += report["reward"]
    assert earned > 0, "a policy that is never right tests little"


def test_what_is_drawn_is_fetched_and_checked(reports: list[Report]) -> None:
    later = [report for report in reports if report["round"] >= 3]
    drawn = sum(report["external_drawn"] for report in later)
    checked = sum(report["external_checked"] for report in later)
    assert drawn >= NODES * (ROUNDS - 2) * (NODES - 1)
    assert checked >= 0.95 * drawn
    for report in reports:
        assert report["external_failed"] == 0, report["failures"]
        assert report["failures"] == []
        assert report["repaired"] == 0
    assert sum(report["external_used"] for report in reports) > 0


def test_bytes_flow_and_memory_stays_small(devnet: Run, reports: list[Report]) -> None:
    for number in range(NODES):
        mine = [report for report in reports if report["node"] == number]
        assert sum(report["bytes_up"] for report in mine) > 0
        assert sum(report["bytes_down"] for report in mine) > 0
    up, down = (sum(report[name] for report in reports) for name in ("bytes_up", "bytes_down"))
    assert up <= 1.5 * down, "what was served before a restart is not counted again"
    peaks = devnet.summary["peak_mib"]
    assert len(peaks) == NODES
    assert all(100 < peak < 1536 for peak in peaks.values()), peaks


def test_the_killed_node_goes_on_and_submits_nothing_twice(devnet: Run, reports: list[Report]) -> None:
    rounds = [report["round"] for report in reports if report["node"] == KILLED]
    assert rounds == list(range(ROUNDS + 1))
    log = (devnet.home(KILLED) / "node.log").read_text()
    assert f"resumed from the checkpoint of round {KILL_ROUND - 1}" in log
    sent = Counter(re.findall(r"(submit/\d+|commit/\d+|register/\d+): mined", log))
    assert set(sent.values()) == {1}
    assert {f"submit/{round_}" for round_ in range(1, ROUNDS + 1)} <= set(sent)
    raw = devnet.reader.w3.eth.get_transaction_count(
        devnet.reader.w3.to_checksum_address(devnet.summary["nodes"][f"node{KILLED}"])
    )
    assert raw == len(set(re.findall(r"sent with nonce (\d+)", log))), "every transaction of the key is in its log"


def test_a_running_nodes_outbox_cannot_be_opened_beside_it(devnet: Run) -> None:
    home = devnet.home(0)
    account = keystore.load(home / "keystore.json", keystore.read_password(devnet.data / "node0.password"))
    with pytest.raises(Exception, match="in use by another process"):
        Outbox(home / "outbox.sqlite", devnet.reader, account)
    second = sapo("run", "--home", home, "--password-file", devnet.data / "node0.password")
    assert second.returncode == 3
    assert "another process runs the node" in second.stderr


def test_status_is_healthy_while_nodes_run(devnet: Run) -> None:
    for number in range(NODES):
        status = sapo("status", "--home", devnet.home(number))
        assert status.returncode == 0, status.stdout + status.stderr
        assert "unhealthy" not in status.stdout
        assert devnet.summary["nodes"][f"node{number}"] in status.stdout


def test_no_secret_is_written_anywhere_but_where_it_belongs(devnet: Run) -> None:
    secrets: dict[str, bytes] = {}
    for number in range(NODES):
        password = keystore.read_password(devnet.data / f"node{number}.password")
        account = keystore.load(devnet.home(number) / "keystore.json", password)
        secrets[f"node{number}'s password"] = password.encode()
        secrets[f"node{number}'s key"] = account.key.hex().removeprefix("0x").encode()
        secrets[f"node{number}'s raw key"] = bytes(account.key)
    files = [path for path in devnet.folder.rglob("*") if path.is_file() and path.suffix != ".password"]
    assert len(files) > 50
    for path in files:
        data = path.read_bytes()
        held = [name for name, secret in secrets.items() if secret in data or secret in data.lower()]
        assert not held, f"{path} holds {held}"
    for number in range(NODES):
        mode = (devnet.home(number) / "keystore.json").stat().st_mode & 0o777
        assert mode == 0o400
