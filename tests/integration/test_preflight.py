"""What `sapo run` refuses, it refuses before anything heavy is imported."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bare_base import bare_base
from sapo_client import cli
from sapo_client.duties.registration import refuse_useless
from sapo_client.node.preflight import ready
from sapo_client.state.settings import Settings
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.networks import BOND, Network, deploy_on, small_spec
from sapo_verifier import keystore
from sapo_verifier.bases import digest_of_folder
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import NodeState
from sapo_verifier.errors import SapoError

HEAVY = ("torch", "transformers", "vllm", "reasoning_gym", "safetensors", "peft")

# All runs in one process, as the libraries for the chain alone take a second to import; then what it has imported.
RUNS = """
import contextlib, io, json, sys
from sapo_client.cli import main
found = []
for arguments in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = main(arguments)
    found.append([status, said.getvalue()])
print(json.dumps([found, sorted(sys.modules)]))
"""


@dataclass
class Home:
    """A home that `sapo run` would take, but for its node's registration."""

    network: Network
    path: Path
    password: Path
    address: str

    def words(self, *more: str) -> list[str]:
        return ["run", "--home", str(self.path), "--password-file", str(self.password), *more]

    def change(self, key: str, value: str) -> None:
        """A line of the settings."""
        file = self.path / "node.toml"
        lines = file.read_text().splitlines()
        (number,) = [number for number, line in enumerate(lines) if line.startswith(f"{key} = ")]
        lines[number] = f"{key} = {value}"
        file.write_text("\n".join(lines))


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Network, Path, Path]]:
    """A network, its deployment file, and the folder of its base."""
    folder = tmp_path_factory.mktemp("network")
    base = bare_base(folder / "base")
    rule = small_spec().bases[0].model_dump(mode="json") | {"digest": "0x" + digest_of_folder(base).hex()}
    with anvil() as chain:
        made = deploy_on(chain, small_spec(bases=[rule]))
        made.deployment.save(folder / "deployment.json")
        yield made, folder / "deployment.json", base
        made.close()


@pytest.fixture
def make(network: tuple[Network, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[], Home]:
    made, deployment, base = network
    homes: list[Home] = []

    def make_home() -> Home:
        folder = tmp_path / str(len(homes))
        folder.mkdir()
        keystore.write_random_password(folder / "password")
        shutil.copy(deployment, folder / "deployment.json")
        words = ["init", "--home", str(folder / "home"), "--deployment", str(folder / "deployment.json")]
        words += ["--policy", str(base), "--password-file", str(folder / "password"), "--light-key"]
        assert cli.main([*words, "--allow-private", "--rpc", made.chain.url]) == 0
        homes.append(Home(made, folder / "home", folder / "password", capsys.readouterr().out.strip()))
        return homes[-1]

    return make_home


def wrong_password(home: Home) -> str:
    home.password = home.path / "other"
    keystore.write_random_password(home.password)
    return "password"


def wrong_chain(home: Home) -> str:
    path = home.path.parent / "deployment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chain_id": 5}))
    return "is chain 31337"


def no_chain(home: Home) -> str:
    home.change("rpc", '"http://127.0.0.1:1"')
    return "127.0.0.1:1"


def open_rpc_file(home: Home) -> str:
    home.change("rpc", '"http://127.0.0.1:1"\nrpc_file = "rpcs"')
    (home.path / "rpcs").write_text(home.network.chain.url)
    (home.path / "rpcs").chmod(0o644)
    return "the RPC file"


def not_registered(home: Home) -> str:
    return f"{home.address} is not registered. Send it 1"


def operator_of_nobody(home: Home) -> str:
    owner = home.network.chain.account(7).address.lower()
    home.change("poll_seconds", f'2.0\nowner = "{owner}"')
    return f"{owner} is not registered"


def wrong_folder(home: Home) -> str:
    (home.path / "elsewhere").mkdir()
    (home.path / "elsewhere" / "config.json").write_text("[]")
    home.change("folder", f'"{home.path / "elsewhere"}"')
    return "was not found. Give its folder"


def unknown_base(home: Home) -> str:
    home.change("base", '"gpt-9"')
    return "no base 'gpt-9'"


def private_endpoint(home: Home) -> str:
    home.change("allow_private", "false")
    return "[ipfs] endpoint"


def no_settings(home: Home) -> str:
    (home.path / "node.toml").unlink()
    return "is no node's home"


REFUSALS = {  # and the exit status
    wrong_password: 2, wrong_chain: 2, no_chain: 3, open_rpc_file: 2, not_registered: 1, operator_of_nobody: 1,
    wrong_folder: 3, unknown_base: 2, private_endpoint: 2, no_settings: 2,
}  # fmt: skip


def test_what_is_wrong_is_said_before_anything_heavy_is_imported(make: Callable[[], Home]) -> None:
    homes = [make() for _ in REFUSALS]
    expected = [refusal(home) for refusal, home in zip(REFUSALS, homes, strict=True)]
    words = [
        home.words(*["--register"] * (refusal is wrong_folder)) for refusal, home in zip(REFUSALS, homes, strict=True)
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUNS, json.dumps(words)],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, modules = json.loads(done.stdout)
    for refusal, (status, said), sentence in zip(REFUSALS, found, expected, strict=True):
        assert status == REFUSALS[refusal], refusal
        assert said.startswith("sapo: "), said
        assert sentence in said, refusal
    assert "sapo_client.node.preflight" in modules, "the list of modules was understood"
    assert not set(HEAVY) & set(modules)


def test_init_takes_a_file_of_rpcs_that_is_private(
    network: tuple[Network, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, deployment, base = network
    keystore.write_random_password(tmp_path / "password")
    file = tmp_path / "rpcs"
    file.write_text(f"{made.chain.url}/KEY\nhttp://127.0.0.1:9\n")
    words = ["init", "--home", str(tmp_path / "home"), "--deployment", str(deployment), "--policy", str(base)]
    words += ["--password-file", str(tmp_path / "password"), "--light-key", "--allow-private", "--rpc-file", str(file)]
    file.chmod(0o644)
    assert cli.main(words) == 2
    assert "the RPC file" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()
    file.chmod(0o600)
    assert cli.main(words) == 0
    assert "KEY" not in (tmp_path / "home" / "node.toml").read_text()
    urls = [f"{made.chain.url}/KEY", "http://127.0.0.1:9"]
    assert Settings.load(tmp_path / "home").chain.rpc_urls(tmp_path / "home") == urls


def test_a_slashed_node_is_refused_and_one_that_owes_is_not(make: Callable[[], Home]) -> None:
    """Exiting, or short of its bond, it has verdicts to reveal and pay to claim; slashed it has nothing to do."""
    home = make()
    network, address = home.network, home.address
    w3, reader = network.chain.w3, network.reader()
    network.chain.rpc("anvil_setBalance", address, hex(2 * BOND))
    network.chain.rpc("anvil_impersonateAccount", address)
    target, sender = w3.to_checksum_address(reader.address_of("nodes")), w3.to_checksum_address(address)
    register = Call("nodes", "register", (address, "/ip4/10.0.0.1/tcp/80/http"))
    for call, value in ((register, BOND), (Call("nodes", "requestExit"), 0)):
        data = "0x" + call.encode().hex()
        w3.eth.send_transaction({"from": sender, "to": target, "data": data, "value": value, "gas": 10**6})
        with ready(home.path, home.password, register=False) as checked:
            assert checked.node == address
            assert checked.settings.policy.lora_rank == 0
        changes = {"policy": {"lora_rank": 4}}
        with ready(home.path, home.password, register=False, changes=changes) as checked:
            assert checked.settings.policy.lora_rank == 4, "for this run, instead of the home's"
    info = reader.node_of(address)
    assert info.state is NodeState.EXITING
    with pytest.raises(SapoError, match="`sapo claim`"):
        refuse_useless(replace(info, state=NodeState.SLASHED), address)
