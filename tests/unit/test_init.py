"""`sapo init`: a home as its options say, or words, and nothing is written over."""

import json
import re
from pathlib import Path

import pytest

from bare_base import bare_base
from homes import init
from sapo_client import cli
from sapo_client.state.settings import Settings
from sapo_verifier import keystore
from sapo_verifier.bases import digest_of_folder
from sapo_verifier.spec import Spec

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"sapo": ["-m", "sapo_client"], "sapo-verify": ["-m", "sapo_verifier"]}


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


def test_init_finds_the_base_by_its_files(
    tmp_path: Path, password: Path, deployment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = bare_base(tmp_path / "model")
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
