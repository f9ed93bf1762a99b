"""The package as others use it: installed as the image does, from the lock files into an environment with nothing else;
and the devnet from there, in a path with a space, without a home."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dockerfile import Played
from sapo_devnet import anvil
from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.alive import descendants, remaining, users_of, wait_until
from sapo_verifier.network_file import NetworkFile

pytestmark = pytest.mark.timeout(900)  # on a busy machine a whole environment takes its minutes

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
def image(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """What the Dockerfile's commands make; torch, which takes longest to unpack, is there before, as a link to ours."""
    root = tmp_path_factory.mktemp("image")
    packages, here = purelib(root / "opt" / "sapo"), Path(sysconfig.get_path("purelib"))
    packages.mkdir(parents=True)
    for found in here.glob("torch*"):
        if found.name == "torch" or found.name.startswith(("torch-", "torchgen")):
            (packages / found.name).symlink_to(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_COMPILE", "1")
        return Played(ROOT / "Dockerfile", root, ("/opt/sapo", "/src", "/home/sapo"))


def purelib(environment: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)}))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, image: Played, pocket: Path) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("their place", numbered=True)
    made = Installed(folder)
    for name in ("temporary", "project"):
        (folder / name).mkdir()
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    # As a plain path, which brings what the node needs and nothing of this checkout along.
    (purelib(folder / "venv") / "these.pth").write_text(str(purelib(image.path("/opt/sapo"))))
    pip = [made.python, "-m", "pip", "-qq", "--disable-pip-version-check"]
    tools = ["install", "--no-deps", "--no-compile", "--require-hashes", "-r", ROOT / "requirements.lock"]
    subprocess.run([*pip, *tools], check=True, timeout=600)
    wheel = ["wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", folder / "wheels", image.path("/src")]
    subprocess.run([*pip, *wheel], check=True, timeout=600)
    (wheel_file,) = (folder / "wheels").glob("*.whl")
    install = ["install", "--no-deps", "--no-index", "--ignore-installed", wheel_file]
    subprocess.run([*pip, *install], check=True, timeout=600)
    shutil.copytree(pocket, made.cache / pocket.name)  # the same as theirs would be, if they built it
    made.cache.chmod(0o700)
    yield made
    assert not users_of(folder), "processes were left behind"


def test_the_image_lacks_nothing_and_brings_nothing_else(image: Played) -> None:
    python = image.path("/opt/sapo/bin/python")
    subprocess.run([python, "-m", "pip", "check", "--disable-pip-version-check"], check=True, timeout=60)
    said = subprocess.run(
        [image.path("/opt/sapo/bin/sapo"), "--help"], capture_output=True, text=True, check=True, env={"PATH": "/bin"}
    )
    assert "devnet" in said.stdout
    assert not (purelib(image.path("/opt/sapo")) / "pytest").exists(), "nothing of a developer's"


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
    network = NetworkFile.load(Path(said["network"]))
    assert said["bases"] == network.bases == {}, "a formula has no model's folder"
    assert len(network.gateways) == 1

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
