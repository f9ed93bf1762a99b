"""A node's whole life as its operator has it: `sapo` in processes of its own, from nothing to the bond in the owner's
wallet, with every coin accounted for."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from web3 import HTTPProvider, Web3

from sapo_client.state.report import read_status
from sapo_devnet.nodes import SAPO
from sapo_devnet.processes import Process, stop_all
from sapo_devnet.testkit.alive import wait_until
from sapo_devnet.testkit.swarm import Swarm, sapo, swarm
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier import keystore
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import NodeState
from sapo_verifier.network_file import NetworkFile
from sapo_verifier.schedule import FINAL_AFTER

COIN = 10**18
WALLET = "0x" + "ab" * 20  # where the bond goes
PAUSED = 2


@dataclass
class Person:
    """One operator, who has this program, the network's file and the folder of a base."""

    net: Swarm
    home: Path
    password: Path
    runs: list[Process] = field(default_factory=list)
    address: str = ""

    def does(self, command: str, *words: Any) -> Any:
        """A command that reads or asks; blocks are made while it waits for them. What it says in JSON."""
        asked = [*SAPO, *command.split(), "--home", str(self.home), *map(str, words), "--json"]
        log = self.net.folder / f"{len(self.net.others)}-{command.replace(' ', '-')}.log"
        process = Process(command, asked, log)
        self.net.others.append(process)
        self.net.serve_until(f"sapo {command} ends", lambda: process.exit_status() is not None)
        assert process.exit_status() == 0, process.last_words()
        said = log.read_text()  # with what it says for people, on standard error
        return json.JSONDecoder().raw_decode(said, re.search(r"^\{", said, re.MULTILINE).start())[0]  # type: ignore[union-attr]

    def runs_node(self, *words: str) -> None:
        command = [*SAPO, "run", "--home", str(self.home), "--password-file", str(self.password), *words]
        self.runs.append(Process("the node", command, self.net.folder / f"run-{len(self.runs)}.log"))

    def ready(self) -> bool:
        """Whether what runs last has got as far as to play."""
        status = read_status(self.home) or {}
        assert self.runs[-1].exit_status() is None, self.runs[-1].last_words()
        return status.get("pid") == self.runs[-1].pid and status.get("done_round") is not None

    def done(self, round_: int) -> bool:
        return self.runs[-1].exit_status() is not None or (
            self.ready() and (read_status(self.home) or {})["done_round"] >= round_
        )

    def stops(self) -> None:
        self.runs[-1].ask_to_stop()
        wait_until("it stops", lambda: self.runs[-1].exit_status() is not None, seconds=60)
        assert self.runs[-1].exit_status() == 0, self.runs[-1].last_words()

    def plays(self, rounds: int) -> None:
        for _ in range(rounds):
            self.net.play_to(self.net.clock.round() + 1, waiting_for=[*self.net.nodes, self])  # type: ignore[list-item]

    @property
    def held(self) -> int:
        return self.net.reader.balance(self.address)


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Swarm]:
    """Two nodes of others, not started."""
    with swarm(tmp_path, tiny_folder(tmp_path / "random")) as made:
        for _ in range(2):
            made.add()
        yield made


@pytest.fixture
def person(net: Swarm) -> Iterator[Person]:
    password = net.folder / "password"
    keystore.write_random_password(password)
    made = Person(net, net.folder / "my node", password)
    yield made
    stop_all(made.runs)


def network_file(net: Swarm) -> Path:
    document = {
        "name": "devnet",
        "chain_id": net.deployment.chain_id,
        "rpc": [net.chain.url],
        "bases": {"pocket": str(net.policy)},
        "deployment": net.deployment,
    }
    path = net.folder / "network.toml"
    NetworkFile.checked(document, "the test").save(path)
    return path


def spent(net: Swarm, address: str) -> tuple[int, int]:
    """What an account has sent, in wei: with its calls, and for their gas."""
    w3, value, gas = Web3(HTTPProvider(net.chain.url)), 0, 0
    for number in range(w3.eth.block_number + 1):
        for sent in w3.eth.get_block(number, full_transactions=True)["transactions"]:
            if sent["from"].lower() == address:
                receipt = w3.eth.get_transaction_receipt(sent["hash"])
                assert receipt["status"] == 1, "nothing that it sends is refused on chain"
                value, gas = value + sent["value"], gas + receipt["gasUsed"] * receipt["effectiveGasPrice"]
    return value, gas


def names(words: Sequence[str], where: str) -> None:
    for word in words:
        assert word in where, where


@pytest.mark.timeout(600)
def test_from_nothing_to_the_bond_in_the_owners_wallet(net: Swarm, person: Person) -> None:
    # A home, with the network's file and a base, and nothing else; what it says has to be sent is enough.
    made = sapo(
        *("init", "--home", person.home, "--network", network_file(net), "--policy", "pocket", "--light-key"),
        *("--allow-private", "--password-file", person.password, "--i", 1, "--j", 2, "--threads", 1),
        *("--poll-seconds", 0.2),
    )
    assert made.returncode == 0, made.stderr
    person.address = made.stdout.strip()
    names(["back up", person.address], made.stderr.lower())
    asked = re.search(rf"send {person.address} ([0-9.]+) coins", made.stderr)
    assert asked is not None, made.stderr
    funds = int(float(asked[1]) * COIN) + 1
    net.chain.rpc("anvil_setBalance", person.address, hex(funds))
    found = {line["what"]: line for line in person.does("doctor", "--quick")["lines"]}
    assert not [line for line in found.values() if line["level"] == "bad"]
    assert "is not registered" in found["node"]["words"]

    # Registered while it is stopped; then it runs beside two others.
    bond = int(net.deployment.spec.chain.bond, 16)
    assert person.does("register", "--password-file", person.password)["state"] == "done"
    assert net.reader.node_of(person.address).bond == bond
    for node in net.nodes:
        node.start()
    person.runs_node("--set", "metrics.port=0")
    net.serve_until("it is ready", person.ready)
    net.begin()
    person.plays(3)
    status = person.does("status")
    assert (status["healthy"], status["node"]) == (True, person.address), status["reasons"]
    with urlopen((read_status(person.home) or {})["metrics"] + "/metrics", timeout=15) as answer:  # noqa: S310
        names([f"sapo_bond_coins {bond / COIN}", "sapo_round "], answer.read().decode())

    # A pause: what is promised is kept, then some rounds pass without it.
    said = person.does("pause", "--rounds", PAUSED)
    person.plays(PAUSED + 3)
    batches = [r for r in range(net.clock.round()) if net.reader.batch_of(person.address, r) is not None]
    missing = [r for r in range(1, net.clock.round()) if r not in batches]
    # The round it was asked in may have promised the next one already.
    assert missing in (
        list(range(said["round"] + 1, said["until"] + 1)),
        list(range(said["round"] + 2, said["until"] + 1)),
    )
    assert net.reader.node_of(person.address).bond == bond, "a pause costs nothing"

    # To another home; pay that became final meanwhile is claimed where it stands still.
    person.plays(1)
    now = net.clock.round()
    net.serve_until("it is done", lambda: person.done(now))
    person.stops()
    person.does("claim", "--password-file", person.password)
    archive, old = net.folder / "node.tar", person.home
    person.does("move export", archive)
    net.chain.mine(12)
    person.home = net.folder / "its new place"
    person.does("move import", archive)
    person.runs_node()
    net.serve_until("it is ready", person.ready)
    assert sapo("run", "--home", old, "--password-file", person.password).returncode == 3
    person.plays(1)

    # The way out.
    left = person.does("exit")
    assert left["state"] == "done"
    names(["the bond can be withdrawn from block"], left["words"])
    early = sapo("withdraw", "--home", person.home, "--to", WALLET, "--password-file", person.password)
    assert (early.returncode, "is locked until" in early.stderr) == (1, True), early.stderr
    free = net.reader.node_of(person.address).exit_block
    while net.reader.block_number() < free:
        person.plays(1)
    person.plays(1)
    assert person.does("withdraw", "--to", WALLET)["state"] == "done"
    net.serve_until("it ends by itself", lambda: (net.chain.mine(1), person.runs[-1].exit_status() is not None)[1])
    assert person.runs[-1].exit_status() == 0, person.runs[-1].last_words()
    assert net.reader.node_of(person.address).state is NodeState.WITHDRAWN

    # Every coin and every token.
    assert net.reader.balance(WALLET) == bond
    value, gas = spent(net, person.address)
    assert value == bond
    assert person.held == funds - value - gas
    last = net.clock.round() - FINAL_AFTER
    pay = AuditsReader(net.reader).payouts_of(person.address, range(last + 1))
    assert all(each.claimed for each in pay if each.amount)
    assert sum(each.amount for each in pay) > 0
    owned = net.reader.call(Call("token", "balanceOf", (person.address,)))
    assert owned == sum(each.amount for each in pay)
