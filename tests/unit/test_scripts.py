"""What lies in scripts/, as it is typed in a fresh shell: before scripts/setup has installed anything, too."""

import shutil
import subprocess
from pathlib import Path

import pytest

from sapo_devnet.checkout import ROOT

SCRIPTS = sorted(path.name for path in (ROOT / "scripts").iterdir() if path.is_file())
INSTALLING = {
    "attacks",
    "bench",
    "chaos",
    "crashes",
    "devnet",
    "experiment",
    "fuzz",
    "load",
    "repeat",
    "scorers",
    "setup",
    "smollm2",
    "soak",
    "test",
    "tolerances",
}
MODULES = ("spec", "deploy", "simulate", "vectors", "export-abi", "find-keys")  # run what is installed, or say so
PLAIN = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout without .venv and node_modules; its `setup` leaves a mark."""
    root = tmp_path_factory.mktemp("checkout")
    for name in ("scripts", "client", "verifier"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return root


def run(root: Path, name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [str(root / "scripts" / name), *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd="/", stdin=subprocess.DEVNULL, env={"PATH": PLAIN}
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_needs_no_setup(bare: Path, name: str) -> None:
    if name == "solc" and shutil.which("node", path=PLAIN) is None:
        pytest.skip("needs Node.js on the path")
    done = run(bare, name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
    assert sorted(path.name for path in bare.iterdir()) == ["client", "scripts", "verifier"], "nothing was installed"


@pytest.mark.parametrize("name", MODULES)
def test_before_setup_a_script_says_what_comes_first(bare: Path, name: str) -> None:
    done = run(bare, name)
    assert done.returncode == 2
    assert "run scripts/setup first" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_script_that_runs_python_is_one_of_the_two_kinds() -> None:
    through = {name for name in SCRIPTS if "/in-venv" in (ROOT / "scripts" / name).read_text()}
    through.remove("in-venv")
    assert through == (INSTALLING - {"setup", "test"}) | set(MODULES) | {"gpu-check"}
    for name in through - {"gpu-check"}:
        installs = "--setup" in (ROOT / "scripts" / name).read_text()
        assert installs == (name in INSTALLING), name


@pytest.mark.parametrize("name", ["spec", "simulate", "vectors"])
def test_after_setup_a_script_runs_from_any_folder(name: str) -> None:
    words = {"spec": ["--base", "x"], "simulate": ["--rounds", "1", "--nodes", "4"], "vectors": ["--check"]}[name]
    done = run(ROOT, name, *words)
    assert done.returncode == (2 if name == "spec" else 0), done.stderr
    assert "Traceback" not in done.stderr
