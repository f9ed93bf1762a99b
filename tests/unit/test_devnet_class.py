"""What `Devnet` and `sapo devnet` say before anything is started, and how the program finds the command."""

import argparse
import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from sapo_client import cli
from sapo_devnet import Devnet, DevnetUnable, anvil
from sapo_devnet.__main__ import main
from sapo_devnet.chain import Clock
from sapo_verifier.errors import UsageError


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attacks": ["nap"]}, "no such attack: nap; there are .*solver"),
        ({"pace": "fast"}, "'done', 'hand', or the seconds"),
        ({"pace": 0}, "pace is 0"),
        ({"pace": True}, "pace is True"),
        ({"rounds": 0}, "a round at least"),
        ({"nodes": -1}, "no negative nodes"),
        ({"formula": -1}, "formula=-1.*no negative nodes"),
    ],
)
def test_options_that_cannot_be_are_refused(options, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=words):
        Devnet(**options)


def test_before_it_runs_it_says_so() -> None:
    net = Devnet()
    for use in (lambda: net.rpc, lambda: net.round, net.logs, lambda: net.kill_node(0)):
        with pytest.raises(UsageError, match="inside its `with` block"):
            use()
    net.stop()


def test_without_anvil_it_says_how_to_get_it_and_keeps_the_logs_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sapo_devnet.testkit.tiny_policy import tiny_folder

    monkeypatch.setattr(anvil, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    model = tiny_folder(tmp_path / "model")
    with pytest.raises(DevnetUnable, match=r"npm install -g @foundry-rs/anvil.*the logs are in") as error:
        Devnet(policy=model, folder=tmp_path / "net").start()
    assert error.value.exit_status == 3
    foundry = tmp_path / ".foundry" / "bin" / "anvil"
    foundry.parent.mkdir(parents=True)
    foundry.write_text("")
    foundry.chmod(0o755)
    assert anvil.anvil_binary() == foundry


def test_behind_npm_s_wrapper_the_binary_itself_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anvil, "ROOT", tmp_path / "nothing")
    packages = tmp_path / "lib" / "node_modules" / "@foundry-rs"
    wrapper, binary = packages / "anvil" / "bin.mjs", packages / "anvil-linux-amd64" / "bin" / "anvil"
    for file in (wrapper, binary):
        file.parent.mkdir(parents=True)
        file.write_text("")
        file.chmod(0o755)
    (tmp_path / "anvil").symlink_to(wrapper)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert anvil.anvil_binary() == binary


class FakeChain:
    """Blocks, and whether something waits to be mined."""

    def __init__(self) -> None:
        self.block = 101
        self.pending = False

    def block_number(self) -> int:
        return self.block

    def has_pending(self) -> bool:
        return self.pending

    def mine(self, blocks: int = 1) -> None:
        self.block += max(0, blocks)

    def mine_to(self, block: int) -> None:
        self.mine(block - self.block)


def test_by_the_clock_blocks_come_evenly_and_rounds_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    chain = FakeChain()
    rules = argparse.Namespace(chain=argparse.Namespace(round_blocks=20))
    clock = Clock(chain, argparse.Namespace(first_block=100, spec=rules), 60.0)  # type: ignore[arg-type]
    clock.begin(0)
    seen = []
    for now[0] in (0.0, 2.5, 5.0, 9.9):
        assert not clock.spread(10.0)
        seen.append(chain.block)
    assert seen == [101, 105, 110, 117]  # two are left for the round's end
    chain.pending = True
    assert not clock.spread(10.0)
    assert chain.block == 117
    now[0] = 10.0
    assert clock.spread(10.0)
    assert (clock.round(), chain.block) == (1, 121)


def test_a_round_that_is_held_goes_on_though_all_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    rules = argparse.Namespace(chain=argparse.Namespace(round_blocks=20))
    clock = Clock(FakeChain(), argparse.Namespace(first_block=100, spec=rules), 60.0)  # type: ignore[arg-type]
    clock.hold(3.0)
    assert not clock.tick(lambda _: True)
    now[0] = 3.0
    assert clock.tick(lambda _: True)


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """The commands that other packages bring."""
    found = [EntryPoint("devnet", "sapo_devnet.command", "sapo.commands")]
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [each for each in found if each.group == group]
    )
    return found


def test_a_package_brings_a_command(
    brought: list[EntryPoint], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    assert end.value.code == 0
    assert "devnet" in capsys.readouterr().out
    assert cli.main(["devnet", "status", "--json", "--folder", str(tmp_path)]) == 3
    assert "sapo devnet up" in json.loads(capsys.readouterr().out)["error"]
    assert cli.main(["devnet", "down", "--folder", str(tmp_path)]) == 0
    assert cli.main(["devnet"]) == 2


def test_a_command_that_is_not_installed_whole_says_what_to_install(
    brought: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    brought[:] = [EntryPoint("devnet", "no_such_package.command", "sapo.commands")]
    assert cli.main(["devnet", "up", "--json"]) == 3
    out, err = capsys.readouterr()
    assert "pip install 'sapo-network[devnet]'" in json.loads(out)["error"]
    assert "no_such_package" in err
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert "no_such_package" not in capsys.readouterr().out


def test_serving_with_attackers_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--serve", "--attack", "solver"]) == 2
    assert "--attack" in capsys.readouterr().err
