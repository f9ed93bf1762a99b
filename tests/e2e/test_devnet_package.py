"""The devnet as others use it: from a wheel in an environment of their own, in a path with a space, without a home."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from sapo_devnet import anvil
from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.alive import descendants, remaining, users_of, wait_until

pytestmark = pytest.mark.skipif(find_spec("setuptools") is None, reason="needs setuptools, to build a wheel offline")

THEIRS = """
import pytest
from sapo_devnet import Devnet, DevnetError


def test_two_lines():
    with Devnet(nodes=1, rounds=1) as net:
        net.until_round(2)
        assert [batch["round"] for batch in net.summary()["batches"]] == [1]
    assert not net._folder.exists()


@pytest.mark.sapo_devnet(nodes=1, pace="hand")
def test_fixture(sapo_devnet):
    net = sapo_devnet
    assert net.round == 0
    assert net.next_round() == 1
    assert net.reader.balance(net.accounts[0].address) == 10_000 * 10**18
    assert len(net.gateways) == 1
"""


class Installed:
    """An environment with the wheel, whose owner has no home that can be written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        self.cache = folder / "temporary" / f"sapo-cache-{os.getuid()}"
        self.environment = {
            "PATH": os.pathsep.join([str(anvil.anvil_binary().parent), "/usr/bin", "/bin"]),
            "HOME": "/dev/null",
            "TMPDIR": str(folder / "temporary"),
            "OMP_NUM_THREADS": "1",
        }

    def run(self, *words: object, seconds: float = 280.0) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [*map(str, words)],
            cwd=self.folder / "project",
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def sapo(self, *words: object, seconds: float = 280.0) -> "subprocess.CompletedProcess[str]":
        return self.run(self.folder / "venv" / "bin" / "sapo", *words, seconds=seconds)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, pocket: Path) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("their place", numbered=True)
    made = Installed(folder)
    for name in ("temporary", "project", "source/scripts"):
        (folder / name).mkdir(parents=True)
    source = folder / "source"
    for name in (
        "client",
        "verifier",
        "scripts/sapo_devnet",
        "scripts/sapo_devnet_pytest",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    ):
        (source / name).parent.mkdir(exist_ok=True)
        subprocess.run(["cp", "-r", ROOT / name, source / name], check=True)
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check"]
    wheel = ["wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", folder / "wheels", source]
    subprocess.run([*pip, *wheel], check=True, timeout=120)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    paths = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    # The packages that it needs are here already; as a plain path, which brings nothing of this checkout along.
    (Path(sysconfig.get_path("purelib", vars=paths)) / "these.pth").write_text(sysconfig.get_path("purelib"))
    (wheel_file,) = (folder / "wheels").glob("*.whl")
    install = ["--python", made.python, "install", "--no-deps", "--no-index", wheel_file]
    subprocess.run([*pip, *install], check=True, timeout=120)
    shutil.rmtree(source)
    shutil.copytree(pocket, made.cache / pocket.name)  # the same as theirs would be, if they built it
    made.cache.chmod(0o700)
    yield made
    assert not users_of(folder), "processes were left behind"


def test_their_tests_run_two_at_once_without_a_home(installed: Installed) -> None:
    (installed.folder / "project" / "test_theirs.py").write_text(THEIRS)
    options = ["-q", "-n", "2", "-p", "no:cacheprovider", "--strict-markers", "--basetemp", installed.folder / "base"]
    done = installed.run(installed.python, "-m", "pytest", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert len(list(installed.cache.iterdir())) == 1, "the policy that was there is the one they use"
    assert not list((installed.folder / "temporary").glob("sapo-devnet-*"))


@pytest.fixture
def up(installed: Installed, tmp_path: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """A detached devnet: what was said of it, and its folder."""
    place = tmp_path / "a devnet"
    done = installed.sapo("devnet", "up", "--detach", "--json", "--formula", 1, "--round-seconds", 5, "--folder", place)
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        yield json.loads(done.stdout), place
    finally:
        installed.sapo("devnet", "down", "--folder", place)
        assert not users_of(place)


def test_a_command_starts_one_tells_of_it_and_ends_it(installed: Installed, up: tuple[dict[str, Any], Path]) -> None:
    said, place = up
    assert said["running"]
    assert Path(said["keystore"]).is_file()
    assert len(said["accounts"]) == 9
    children = descendants(said["pid"])
    assert len(children) >= 3, "a chain, a daemon, a task worker"
    assert [node["name"] for node in said["nodes"]] == ["formula0"]
    assert said["bases"] == {}, "a formula has no model's folder"

    again = installed.sapo("devnet", "up", "--detach", "--json", "--folder", place)
    assert again.returncode == 3
    assert "runs in" in json.loads(again.stdout)["error"]

    def round_() -> int:
        done = installed.sapo("devnet", "status", "--json", "--folder", place)
        assert done.returncode == 0, done.stderr
        return int(json.loads(done.stdout)["round"])

    wait_until("rounds end by the clock", lambda: round_() >= 1, seconds=60, poll=0.5)
    down = installed.sapo("devnet", "down", "--json", "--folder", place)
    assert (down.returncode, json.loads(down.stdout)["stopped"]) == (0, True)
    assert not remaining(children)
    status = installed.sapo("devnet", "status", "--json", "--folder", place)
    assert status.returncode == json.loads(status.stdout)["status"] == 3
    assert installed.sapo("devnet", "down", "--folder", place).returncode == 0
