"""`sapo status` without a network: what it says of a node, and the exit status that a supervisor acts on."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from sapo_client.commands import status
from sapo_client.duties.health.ipfs import daemon_reasons
from sapo_client.state.home import only_one
from sapo_client.state.report import STATUS_FILE, RoundReport
from sapo_client.state.settings import ChainSettings, IpfsSettings, PolicySettings, Settings
from sapo_devnet.testkit.hostile_http import answer, hostile
from sapo_devnet.testkit.networks import small_spec
from sapo_verifier.chain.deployment import Contracts, Deployment
from sapo_verifier.errors import SapoError

NODE = "0x" + "ab" * 20


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Settings for a chain that nobody serves."""
    spec = small_spec()
    contracts = Contracts(**dict.fromkeys(Contracts.model_fields, NODE))
    Deployment(
        chain_id=1, block=1, block_hash=bytes(32), first_block=9, contracts=contracts,
        spec_digest=spec.digest(), spec=spec,
    ).save(tmp_path / "deployment.json")  # fmt: skip
    chain = ChainSettings(rpc="http://127.0.0.1:9", deployment=tmp_path / "deployment.json")
    folder = tmp_path / "home"
    folder.mkdir()
    ipfs = IpfsSettings(api="/ip4/127.0.0.1/tcp/7/http")
    Settings(chain=chain, policy=PolicySettings(folder=tmp_path), ipfs=ipfs).write(folder)
    return folder


def say(home: Path, **values: Any) -> None:
    """The status file of a node; this process stands for it."""
    now = time.time()
    document = {"pid": os.getpid(), "started": now, "updated": now, "node": NODE, "phase": "training", "round": 3}
    (home / STATUS_FILE).write_text(json.dumps(document | values))


def shown(home: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = status.show(home, as_json=True)
    return code, json.loads(capsys.readouterr().out)


def test_a_node_that_never_ran(home: Path) -> None:
    with pytest.raises(SapoError, match="never ran; start it with `sapo run --home"):
        status.show(home, as_json=False)


def test_a_node_that_runs_without_its_chain(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say(home)
    with only_one(home):
        code, facts = shown(home, capsys)
    assert code == 1
    assert facts["running"] is True
    assert facts["healthy"] is False
    chain, daemon = facts["reasons"]
    assert "127.0.0.1:9" in chain
    assert "the IPFS daemon at /ip4/127.0.0.1/tcp/7/http does not answer" in daemon
    assert "The node starts it again" in daemon


def test_an_external_daemon_is_its_operators_business(home: Path) -> None:
    """Waited for, if it is away; if it refuses, that alone is said."""
    ipfs = Settings.load(home).ipfs.model_copy(update={"daemon": "external"})
    assert "It is not the node's own ([ipfs] daemon), which waits for it" in daemon_reasons(ipfs, home, 1.0)[0]
    with hostile(answer(b"403 - Forbidden", status="403 Forbidden")) as kubo:
        (words,) = daemon_reasons(ipfs.model_copy(update={"api": kubo.endpoint()}), home, 5.0)
    assert "[ipfs] api_auth_file" in words
    assert "waits" not in words


def test_a_node_that_was_killed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    say(home, pid=ended.pid)
    code, facts = shown(home, capsys)
    assert code == 1
    assert facts["running"] is False
    assert "not running (its last phase was: training)" in facts["reasons"][0]


def test_a_killed_node_whose_number_another_process_has_now(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers come again after a restart of the machine: what counts is who holds the home."""
    say(home)
    code, facts = shown(home, capsys)
    assert code == 1
    assert facts["running"] is False


def test_a_node_that_hangs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say(home, updated=time.time() - 1000)
    with only_one(home):
        code, facts = shown(home, capsys)
    assert code == 1
    assert "has said nothing for 1000 s" in facts["reasons"][0]


def test_trouble_and_the_last_round_are_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say(home, trouble="the moon is in the way")
    RoundReport(round=2, reward=3, completions=32, external_used=1, external_missing=3).append_to(home)
    with only_one(home):
        assert status.show(home, as_json=False) == 1
    out = capsys.readouterr().out
    assert "unhealthy: the moon is in the way" in out
    assert "'reward': '3/32'" in out


def test_looking_does_not_take_the_home(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say(home)
    shown(home, capsys)
    with only_one(home):
        shown(home, capsys)
