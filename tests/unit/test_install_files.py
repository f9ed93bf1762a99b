"""What an operator installs with: the lock files, the image, the compose file and the systemd unit."""

import os
import re
import shutil
import stat
import subprocess
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dockerfile import read
from sapo_devnet.checkout import ROOT

LOCKS = ("requirements.lock", "requirements-node.lock", "requirements-vllm.lock", "requirements-nodejs.lock")
LATEST = re.compile(r"(:latest|^[^:]+)$")
OPERATOR = ROOT / "scripts" / "operator"


def locked(name: str) -> dict[str, tuple[str, int]]:
    """Of a lock file: each package's version and how many hashes it has."""
    found: dict[str, tuple[str, int]] = {}
    last = ""
    for line in (ROOT / name).read_text().splitlines():
        if line.startswith("#"):
            continue
        if match := re.match(r"([A-Za-z0-9._-]+)==([^ ;]+)", line):
            last = canonicalize_name(match[1])
            assert last not in found, f"{last} twice"
            found[last] = (match[2], 0)
        else:
            assert re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}( \\)?", line), line
            found[last] = (found[last][0], found[last][1] + 1)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_its_files_hashes(name: str) -> None:
    packages = locked(name)
    assert packages
    assert not [package for package, (_, hashes) in packages.items() if hashes == 0]
    assert "torch" not in packages, "its builds differ by machine"


@pytest.mark.parametrize(
    ("name", "extras"), [("requirements.lock", ("node", "devnet", "dev")), ("requirements-node.lock", ("node",))]
)
def test_a_lock_has_all_that_the_package_needs(name: str, extras: tuple[str, ...]) -> None:
    """All, as it is installed without asking for anything more; in versions that fit, on this machine."""
    packages = locked(name)
    torch = re.search(r"^torch==(.+)$", (ROOT / "requirements-torch.lock").read_text(), re.MULTILINE)
    assert torch is not None
    packages["torch"] = (torch[1], 1)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(words) for words in project["dependencies"]]
    for extra in ("model", *extras):
        wanted += [Requirement(words) for words in project["optional-dependencies"][extra]]
    seen: set[tuple[str, str]] = set()
    while wanted:
        requirement = wanted.pop()
        package = canonicalize_name(requirement.name)
        if package == "sapo-network":
            continue
        assert package in packages, f"{requirement} is not locked"
        assert requirement.specifier.contains(packages[package][0], prereleases=True), requirement
        for extra in ("", *requirement.extras):
            if (package, extra) not in seen:
                seen.add((package, extra))
                wanted += needs(distribution(package), extra)
    assert len(seen) > 50


def needs(package: Distribution, extra: str) -> list[Requirement]:
    found = [Requirement(words) for words in package.requires or []]
    return [each for each in found if each.marker is None or each.marker.evaluate({"extra": extra})]


def test_a_nodes_lock_is_a_part_of_the_whole_one() -> None:
    assert locked("requirements-node.lock").items() < locked("requirements.lock").items()


def test_the_image_names_versions_and_runs_as_nobody() -> None:
    stages = read(ROOT / "Dockerfile")
    assert not [stage.base for stage in stages if LATEST.search(stage.base)]
    last = {step.name: step.words for step in stages[-1].steps}
    assert last["USER"] == "10001:10001"
    assert last["ENTRYPOINT"] == '["sapo"]'
    for stage in stages:
        for step in stage.steps:
            assert step.name != "ADD", "COPY takes what is here, and nothing from elsewhere"
            for source in step.words.split()[:-1] if step.name == "COPY" and "--from" not in step.words else ():
                assert (ROOT / source).exists(), source


def test_the_image_is_sent_no_more_than_it_copies() -> None:
    """.dockerignore leaves out all but what COPY names: no key, no environment, nothing of .git."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert (ROOT / ".dockerignore").read_text().startswith("*\n")
    copied = set()
    for stage in read(ROOT / "Dockerfile"):
        for step in stage.steps:
            if step.name == "COPY" and "--from" not in step.words:
                copied |= set(step.words.split()[:-1])
    assert allowed == copied


def test_compose_mounts_what_is_here_and_opens_what_peers_need() -> None:
    document = yaml.safe_load((ROOT / "compose.yaml").read_text())
    services = document["services"]
    assert set(services) == {"node", "kubo", "prometheus", "grafana"}
    for name, service in services.items():
        assert not LATEST.search(service["image"]) or name == "node", f"{name}: an image has a version"
        assert "no-new-privileges:true" in service["security_opt"]
        for needed in service.get("depends_on", []):
            assert needed in services
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).is_file() if source.startswith(".") else source in document["volumes"], source
    open_to_all = {
        port for service in services.values() for port in service.get("ports", []) if "127.0.0.1" not in port
    }
    assert open_to_all == {"8080:8080", "4001:4001/tcp", "4001:4001/udp"}, "never Kubo's API, nor metrics"


def test_digests_are_written_and_taken_away_again(tmp_path: Path) -> None:
    """With a `docker` that knows one digest for every image: a daemon cannot be had here."""
    for name in ("Dockerfile", "compose.yaml", "scripts/pin-images"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    docker, digest = tmp_path / "bin" / "docker", "sha256:" + "ab" * 32
    docker.parent.mkdir()
    docker.write_text(f'#!/bin/sh\n[ "$1" = pull ] || echo "name@{digest}"\n')
    docker.chmod(0o755)
    before = [(tmp_path / name).read_text() for name in ("Dockerfile", "compose.yaml")]

    def pin(*words: str, path: str = f"{docker.parent}:/usr/bin:/bin") -> int:
        command = ["bash", str(tmp_path / "scripts" / "pin-images"), *words]
        done = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or "no docker here" in done.stderr
        return done.returncode

    assert pin() == pin() == 0, "twice is as once"
    dockerfile, compose = ((tmp_path / name).read_text() for name in ("Dockerfile", "compose.yaml"))
    assert dockerfile.count(digest) == len(read(ROOT / "Dockerfile"))
    assert compose.count(digest) == 3, "all but the image that is built here"
    assert f"FROM python:3.11-slim-bookworm@{digest} AS build" in dockerfile
    assert pin("--tags") == 0
    assert [(tmp_path / name).read_text() for name in ("Dockerfile", "compose.yaml")] == before
    if not shutil.which("docker", path="/usr/bin:/bin"):
        assert pin(path="/usr/bin:/bin") == 3


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze (Debian's systemd)")
def test_systemd_takes_the_unit_and_finds_it_hardened(tmp_path: Path) -> None:
    program = tmp_path / "sapo"
    program.write_text("#!/bin/sh\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    unit = tmp_path / "sapo.service"
    unit.write_text((OPERATOR / "sapo.service").read_text().replace("/opt/sapo/bin/sapo", str(program)))
    environment = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning"}
    verify = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    rate = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)]
    rated = subprocess.run(rate, capture_output=True, text=True, check=False, env=environment)
    assert rated.returncode == 0, rated.stdout[-300:]
