"""The commands of a node's life on a real chain, for a node that is stopped: each sends by the outbox and waits."""

import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from eth_utils.address import to_checksum_address

from sapo_client import cli
from sapo_client.duties.requests import Requests
from sapo_client.duties.steps import leave, set_operator
from sapo_client.state import home as layout
from sapo_client.state.requests import RequestBook
from sapo_client.state.settings import ChainSettings, IpfsSettings, PolicySettings, Settings
from sapo_client.transactions.outbox import Outbox
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.networks import BOND, Network, deploy_on
from sapo_verifier import keystore
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import NodeState

HERE = "/dns4/node.example.org/tcp/443/https"
THERE = "/dns4/moved.example.org/tcp/443/https"
COIN = 10**18
OTHER = "0x" + "ab" * 20

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with anvil() as chain:
        made = deploy_on(chain)
        yield made
        made.close()


@dataclass
class Home:
    """A node's home with a key of its own; the chain mines what is sent at once."""

    network: Network
    path: Path
    password: Path
    address: str

    def sapo(self, command: str, *words: str, wait: str = "20") -> int:
        """Without the password where none is needed."""
        more = [] if command in ("pause", "resume") else ["--password-file", str(self.password), "--wait", wait]
        return cli.main([command, "--home", str(self.path), *more, *words])

    def info(self) -> Any:
        return self.network.reader().node_of(self.address)

    def balance(self) -> int:
        return self.network.reader().balance(self.address)

    def fund(self, wei: int) -> None:
        self.network.chain.rpc("anvil_setBalance", self.address, hex(wei))

    def fine(self, wei: int) -> None:
        """As a settlement takes it."""
        chain, audits = self.network.chain, self.network.deployment.contracts.audits
        chain.rpc("anvil_impersonateAccount", audits)
        chain.rpc("anvil_setBalance", audits, hex(COIN))
        call = Call("nodes", "fine", (self.address, wei, "0x" + "77" * 20, 10))
        to, data = self.network.deployment.contracts.nodes, "0x" + call.encode().hex()
        chain.rpc("eth_sendTransaction", {"from": audits, "to": to, "data": data, "gas": hex(10**6)})

    def settings(self) -> dict[str, Any]:
        return tomllib.loads((self.path / "node.toml").read_text())


@pytest.fixture
def make(network: Network, tmp_path: Path) -> Callable[..., Home]:
    network.deployment.save(tmp_path / "deployment.json")
    count = iter(range(9))

    def made(owner: str | None = None) -> Home:
        folder = tmp_path / f"home{next(count)}"
        folder.mkdir(mode=0o700)
        chain = ChainSettings(rpc=network.chain.url, deployment=tmp_path / "deployment.json", owner=owner)
        Settings(chain=chain, policy=PolicySettings(folder=tmp_path), ipfs=IpfsSettings(endpoint=HERE)).write(folder)
        password = folder / "password"
        keystore.write_random_password(password)
        secret = keystore.read_password(password)
        factor = keystore.LIGHT_WORK_FACTOR
        return Home(network, folder, password, keystore.create(folder / layout.KEYSTORE, secret, work_factor=factor))

    return made


@pytest.fixture
def home(make: Callable[..., Home]) -> Home:
    made = make()
    made.fund(10 * COIN)
    return made


@pytest.fixture
def node(home: Home) -> Home:
    """Registered."""
    assert home.sapo("register") == 0
    return home


def test_a_life_and_its_balances_to_the_wei(home: Home, capsys: Capture) -> None:
    network, held = home.network, home.balance()

    def spent(command: str, *words: str) -> int:
        """What the account paid for a command, less its gas."""
        nonlocal held
        capsys.readouterr()
        assert home.sapo(command, *words, "--json") == 0
        done = json.loads(capsys.readouterr().out)
        assert done["state"] == "done"
        receipt = network.chain.w3.eth.get_transaction_receipt(done["transaction"])
        before, held = held, home.balance()
        return before - held - receipt["gasUsed"] * receipt["effectiveGasPrice"]

    assert home.sapo("exit") == 1
    assert "would have to be registered" in capsys.readouterr().err
    assert spent("register") == BOND
    assert (home.info().state, home.info().endpoint, home.info().bond) == (NodeState.REGISTERED, HERE, BOND)
    assert home.sapo("register") == 1
    assert "is registered already" in capsys.readouterr().err
    assert home.sapo("top-up") == 0
    assert "nothing had to be sent" in capsys.readouterr().out
    home.fine(BOND // 50)
    assert home.sapo("top-up", "--coins", "0.03") == 1
    assert "misses exactly 0.02 coins, and a top-up pays exactly that" in capsys.readouterr().err
    assert spent("top-up") == BOND // 50
    assert home.info().active
    assert home.sapo("withdraw", "--to", OTHER) == 1
    assert "did not ask to exit (it is registered)" in capsys.readouterr().err
    assert spent("set-operator", OTHER) == 0
    assert home.info().operator == OTHER
    assert spent("set-operator", home.address) == 0
    assert spent("exit") == 0
    assert home.info().state is NodeState.EXITING
    assert home.sapo("exit") == 1
    said = capsys.readouterr().err
    assert "has asked to exit already" in said
    rounds = network.spec.chain.round_blocks
    round_ = (home.info().exit_block - network.deployment.first_block) // rounds
    for words in ("exit", f"block {home.info().exit_block}, in round {round_}"):
        assert words in said
    assert home.sapo("withdraw", "--to", OTHER) == 1
    assert f"locked until block {home.info().exit_block}, in round {round_}" in capsys.readouterr().err
    network.chain.mine_to(home.info().exit_block)
    before = network.reader().balance(OTHER)
    assert spent("withdraw", "--to", OTHER) == 0
    assert network.reader().balance(OTHER) - before == BOND
    assert home.info().state is NodeState.WITHDRAWN
    assert home.sapo("withdraw", "--to", OTHER) == 1
    assert "it is withdrawn" in capsys.readouterr().err
    assert spent("register") == BOND, "who has withdrawn may come again"


def test_what_the_account_lacks_is_one_sum_with_gas(make: Callable[..., Home], capsys: Capture) -> None:
    home = make()
    home.fund(BOND // 2)
    assert home.sapo("register") == 1
    said = capsys.readouterr().err
    assert "holds 0.5 coins, and register can cost 1.0" in said
    assert "1 of them paid to the contract and the rest for gas; send the account 0.50" in said
    home.fund(BOND + 1)
    assert home.sapo("register") == 1
    assert "send the account 0.000" in capsys.readouterr().err
    assert not (home.path / layout.REQUESTS).exists() or RequestBook(home.path / layout.REQUESTS).open() == []


def test_the_endpoint_is_checked_and_written(node: Home, capsys: Capture) -> None:
    file = node.path / "node.toml"
    file.write_text(file.read_text().replace(f'endpoint = "{HERE}"', f"# where peers come\nendpoint = '{HERE}' # mine"))
    before = node.settings()
    assert node.sapo("set-endpoint", "/ip4/10.0.0.1/tcp/80/http") == 2
    assert "private" in capsys.readouterr().err
    assert (node.settings(), node.info().endpoint) == (before, HERE)
    assert node.sapo("set-endpoint", THERE) == 0
    assert node.info().endpoint == THERE
    assert f'# where peers come\nendpoint = "{THERE}" # mine' in file.read_text()
    before["ipfs"]["endpoint"] = THERE
    assert node.settings() == before
    assert file.stat().st_mode & 0o077 == 0
    capsys.readouterr()
    assert node.sapo("set-endpoint") == 0
    assert "nothing had to be sent" in capsys.readouterr().out
    file.write_text(file.read_text().replace(THERE, HERE))
    assert node.sapo("set-endpoint") == 0, "as node.toml says"
    assert node.info().endpoint == HERE


def test_addresses_and_amounts_that_cannot_be(home: Home) -> None:
    mistyped = to_checksum_address(OTHER).replace("B", "b", 1)
    for words in (["withdraw"], ["withdraw", "--to", "0x12"], ["set-operator", mistyped], ["top-up", "--coins", "1,5"],
                  ["pause", "--rounds", "0"], ["exit", "--wait", "soon"]):  # fmt: skip
        assert cli.main([words[0], "--home", str(home.path), *words[1:]]) == 2
    assert home.sapo("set-operator", to_checksum_address(OTHER)) == 1, "not registered, but well written"


def test_what_is_not_mined_in_time_stays_asked(node: Home, capsys: Capture) -> None:
    """The same again is no second transaction."""
    chain = node.network.chain
    chain.rpc("evm_setAutomine", False)
    try:
        assert node.sapo("set-operator", OTHER, wait="1") == 3
        assert "was not mined in 1 s; it stays asked, as request 2" in capsys.readouterr().err
        assert node.sapo("set-operator", OTHER, "--json", wait="0") == 0
        again = json.loads(capsys.readouterr().out)
        assert (again["request"], again["state"]) == (2, "put")
        assert int(chain.rpc("eth_getTransactionCount", node.address, "pending"), 16) == 2
    finally:
        chain.rpc("evm_setAutomine", True)
    chain.mine()
    assert node.sapo("exit") == 0, "what was left open is settled first"
    assert node.info().operator == OTHER
    with closing(RequestBook(node.path / layout.REQUESTS)) as book:
        assert (book.get(2).state, book.open()) == ("done", [])


def test_a_process_that_ends_anywhere_sends_nothing_twice(node: Home) -> None:
    network = node.network
    account = keystore.load(node.path / layout.KEYSTORE, keystore.read_password(node.password))
    book = RequestBook(node.path / layout.REQUESTS)
    sent = network.chain.w3.eth.get_transaction_count(to_checksum_address(node.address))
    step = set_operator(OTHER)
    asked = book.ask(step.kind, step.key, step.call, step.value, step.argument)
    assert book.ask(step.kind, step.key, step.call, step.value, step.argument) == asked, "the same, joined"
    other = set_operator("0x" + "cd" * 20)
    later = book.ask(other.kind, other.key, other.call, other.value, other.argument)
    for moment in ("asked", "put, not noted", "sent, not noted", "mined"):
        outbox = Outbox(node.path / layout.OUTBOX, network.reader(), account)
        requests = Requests(network.reader(), outbox, node.address, book)
        if moment == "put, not noted":
            outbox.put(asked.key, step.call)
        elif moment == "sent, not noted":
            outbox.pump()
            assert book.get(asked.id).state == "asked"
        elif moment == "mined":
            for _ in range(3):
                requests.go_on()
                outbox.pump()
            requests.go_on()
        outbox.close()
    assert [book.get(each.id).state for each in (asked, later)] == ["done", "done"]
    assert node.info().operator == "0x" + "cd" * 20, "in order: the last one stands"
    assert network.chain.w3.eth.get_transaction_count(to_checksum_address(node.address)) == sent + 2
    book.close()


def test_a_lost_outbox_asks_the_contract_again(node: Home) -> None:
    """What was put and is not known any more is put again; the contract says that it was done."""
    network = node.network
    account = keystore.load(node.path / layout.KEYSTORE, keystore.read_password(node.password))
    with closing(RequestBook(node.path / layout.REQUESTS)) as book:
        step = leave()
        asked = book.ask(step.kind, step.key, step.call, step.value, step.argument)
        with closing(Outbox(node.path / layout.OUTBOX, network.reader(), account)) as outbox:
            Requests(network.reader(), outbox, node.address, book).go_on()
            outbox.pump()
        (node.path / layout.OUTBOX).unlink()
        with closing(Outbox(node.path / layout.OUTBOX, network.reader(), account)) as outbox:
            Requests(network.reader(), outbox, node.address, book).go_on()
        assert book.get(asked.id).state == "refused"
        assert "has asked to exit already" in book.get(asked.id).words


def test_a_withdrawal_settles_first_what_is_overdue(node: Home) -> None:
    network = node.network
    current = network.reader().current_round()
    network.chain.rpc("anvil_impersonateAccount", node.address)

    def send(name: str, *arguments: Any) -> None:
        to, data = network.deployment.contracts.rounds, "0x" + Call("rounds", name, arguments).encode().hex()
        network.chain.rpc("eth_sendTransaction", {"from": node.address, "to": to, "data": data, "gas": hex(10**6)})

    send("commitPolicy", node.address, current + 1, b"\x01" * 32, 1)
    assert node.sapo("exit") == 0
    network.mine_to_round(current + 1)
    network.chain.mine()
    send("poke")
    network.chain.mine_to(node.info().exit_block)
    before = network.reader().balance(OTHER)
    assert node.sapo("withdraw", "--to", OTHER) == 0
    assert network.reader().balance(OTHER) - before == BOND - int(network.spec.chain.missed_batch_fee, 16)


def test_where_the_owners_key_is_elsewhere(make: Callable[..., Home], capsys: Capture) -> None:
    network = make().network
    wallet = network.chain.account(5).address
    home = make(wallet.lower())
    home.fund(COIN)
    owner, w3 = wallet.lower(), network.chain.w3

    def wallet_sends(command: str, *words: str) -> dict[str, Any]:
        """What the command shows, as any wallet sends it."""
        capsys.readouterr()
        assert home.sapo(command, *words, "--json") == 2
        shown: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert (shown["from"], shown["status"]) == (owner, 2)
        assert network.reader().call(Call("nodes", "operatorOf", (owner,))) in ("0x" + "00" * 20, home.address)
        sent = w3.eth.send_transaction(
            {"from": wallet, "to": to_checksum_address(shown["to"]), "data": shown["data"], "value": shown["value"]}
        )
        assert w3.eth.wait_for_transaction_receipt(sent, timeout=60)["status"] == 1
        return shown

    shown = wallet_sends("register")
    assert (shown["function"], shown["value"]) == ("register(address,string)", BOND)
    assert shown["arguments"] == [home.address, HERE]
    assert network.reader().node_of(owner).active
    home.password.unlink()
    assert home.sapo("set-endpoint", THERE) == 2, "without a password: nothing is signed"
    with layout.only_one(home.path), closing(RequestBook(home.path / layout.REQUESTS)) as book:
        assert home.sapo("set-endpoint", THERE) == 2
        asked, adopted, unused = book.open(), list[str](), cast("Any", None)
        Requests(network.reader(), unused, owner, book, adopted.append).go_on()
        assert (len(asked), adopted, book.open()) == (1, [THERE], []), "a running node serves there, and sends nothing"
    out = capsys.readouterr().out
    for words in (
        "setEndpoint(string)",
        THERE,
        network.deployment.contracts.nodes,
        "nothing was sent",
    ):
        assert words in out
    assert home.settings()["ipfs"]["endpoint"] == THERE
    assert network.reader().node_of(owner).endpoint == HERE
    wallet_sends("set-endpoint")
    assert network.reader().node_of(owner).endpoint == THERE
    wallet_sends("exit")
    assert network.reader().node_of(owner).state is NodeState.EXITING
    network.chain.mine_to(network.reader().node_of(owner).exit_block)
    assert wallet_sends("withdraw", "--to", OTHER)["arguments"] == [OTHER]
    assert network.reader().node_of(owner).state is NodeState.WITHDRAWN
    assert not (home.path / layout.OUTBOX).exists(), "nothing was sent from here"


def test_a_pause_and_its_end(home: Home, capsys: Capture) -> None:
    current = home.network.reader().current_round()
    assert home.sapo("resume", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ended"] is False
    assert home.sapo("pause", "--rounds", "3", "--json") == 0
    assert json.loads(capsys.readouterr().out)["until"] == current + 3
    with closing(RequestBook(home.path / layout.REQUESTS)) as book:
        pause = book.paused()
        assert pause is not None
        assert [pause.covers(r) for r in range(current - 1, current + 4)] == [False, True, True, True, False]
        assert book.pause(current + 1, 5).first == current, "one that goes on is only longer"
        assert book.resume(current + 2)
        assert not book.resume(current + 2)
        pause = book.paused()
        assert pause is not None
        assert not pause.covers(current + 2)
