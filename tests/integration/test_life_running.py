"""A node's life while it runs, on a network of formula nodes: what is asked of it goes through its own outbox, in its
own order; a pause, an exit, and a withdrawal that ends it. The tests of this file are one story, in their order."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from threading import Thread
from typing import Any

import pytest
from eth_account import Account
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes
from sapo_devnet.testkit.formula_network import FormulaNetwork, formula_network
from web3 import HTTPProvider, Web3
from web3.exceptions import TransactionNotFound

from sapo_client import cli
from sapo_client.state import home as layout
from sapo_client.state.requests import PAUSED, RequestBook
from sapo_client.state.settings import ChainSettings, IpfsSettings, PolicySettings, Settings
from sapo_client.transactions.outbox import Outbox
from sapo_devnet.chain import FUNDS
from sapo_devnet.formula_nodes import FormulaNode
from sapo_verifier import keystore
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import NodeState

PAUSE, ROUNDS = 3, 2
RECEIVER = "0x" + "ab" * 20
SECONDS = 90.0  # for what takes one or two

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FormulaNetwork]:
    with formula_network(tmp_path_factory.mktemp("life"), nodes=3, rounds=ROUNDS) as made:
        yield made


@pytest.fixture(scope="module")
def node(net: FormulaNetwork) -> Iterator[FormulaNode]:
    """Its home has what commands need, too, and is held as a process holds it."""
    node = net.nodes[0]
    file = net.folder / "deployment.json"
    net.deployment.save(file)
    ipfs = IpfsSettings(api=node.api, endpoint=node.gateway, allow_private=True)
    chain = ChainSettings(rpc=net.chain.url, deployment=file)
    Settings(chain=chain, policy=PolicySettings(folder=net.folder), ipfs=ipfs).write(node.home)
    secret = Account.encrypt(node._account.key, "secret", kdf="scrypt", iterations=keystore.LIGHT_WORK_FACTOR)
    (node.home / layout.KEYSTORE).write_text(json.dumps(secret))
    with layout.only_one(node.home):
        yield node


def ask(node: FormulaNode, capsys: Capture, *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = cli.main([words[0], "--home", str(node.home), *words[1:], "--json"])
    return code, json.loads(capsys.readouterr().out)


def serve_until(net: FormulaNetwork, true: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        net.clock.serve()
        net.refuse_dead()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def batches_of(net: FormulaNetwork, node: FormulaNode, first: int) -> list[int]:
    """The rounds in which it has a batch, from `first` on."""
    return [r for r in range(first, net.clock.round() + 1) if net.reader.batch_of(node.address, r) is not None]


def test_a_pause_keeps_what_is_promised_and_promises_nothing(
    net: FormulaNetwork, node: FormulaNode, capsys: Capture
) -> None:
    now = net.clock.round()
    assert ask(node, capsys, "pause", "--rounds", str(PAUSE))[1]["until"] == now + PAUSE
    net.play_to(now + 1)
    node.stop()
    node.start()  # a restart changes nothing
    net.play_to(now + 2)
    code, facts = ask(node, capsys, "status")
    assert facts["paused"] == f"until round {now + PAUSE}: it promises nothing new"
    assert (code, facts["reasons"]) == (0, [])
    net.play_to(now + PAUSE + 2)
    assert batches_of(net, node, now) == [now, now + 1, now + PAUSE + 1, now + PAUSE + 2]
    audits = AuditsReader(net.reader)
    voted = [r for r in range(now - 1, now + PAUSE) if audits.verdicts_of(node.address, r, 1)[0].value != "none"]
    assert voted == [now - 1, now + PAUSE - 1], "in the rounds after these, verdicts are committed"
    info = net.reader.node_of(node.address)
    assert (info.active, audits.is_settled(node.address)) == (True, True), "no fee was due"
    skipped = {report["round"]: report["skipped"] for report in node.rounds()}
    assert all(skipped[r].startswith(PAUSED) for r in range(now + 2, now + PAUSE + 1))
    assert ask(node, capsys, "status")[1]["reasons"] == [], "nor is what was meant so a reason later"


def test_a_pause_that_ends_early(net: FormulaNetwork, node: FormulaNode, capsys: Capture) -> None:
    now = net.clock.round()
    ask(node, capsys, "pause", "--rounds", "50")
    net.play_to(now + 1)
    assert ask(node, capsys, "resume")[1]["ended"] is True
    net.play_to(now + 3)
    assert batches_of(net, node, now + 1) == [now + 1, now + 3]
    assert "paused" not in ask(node, capsys, "status")[1]


def test_a_new_endpoint_is_the_nodes_own(net: FormulaNetwork, node: FormulaNode, capsys: Capture) -> None:
    """And not set back. `--wait` tells that it is mined, and a second one of the same joins the first."""
    there = node.gateway.replace("/ip4/127.0.0.1/", "/dns4/localhost/")
    done: list[tuple[int, dict[str, Any]]] = []
    thread = Thread(target=lambda: done.append(ask(node, capsys, "set-endpoint", there, "--wait", "60")))
    thread.start()
    serve_until(net, lambda: not thread.is_alive())
    assert done[0][0] == 0
    assert done[0][1]["state"] == "done"
    assert net.reader.node_of(node.address).endpoint == there
    assert Settings.load(node.home).ipfs.endpoint == there
    net.play_to(net.clock.round() + 1)
    assert net.reader.node_of(node.address).endpoint == there, "nobody took it for a second program's doing"
    assert node.status()["endpoint"] == there
    assert ask(node, capsys, "status")[1]["reasons"] == []
    # A formula node that is started again serves where it did before.
    assert ask(node, capsys, "set-endpoint", node.gateway, "--wait", "0")[1]["state"] in ("asked", "put")
    serve_until(net, lambda: net.reader.node_of(node.address).endpoint == node.gateway)


def test_refusals_of_a_running_node(net: FormulaNetwork, node: FormulaNode, capsys: Capture) -> None:
    code, said = ask(node, capsys, "withdraw", "--to", RECEIVER)
    assert (code, said["status"]) == (1, 1)
    assert "did not ask to exit" in said["error"]
    code, said = ask(node, capsys, "register")
    assert (code, "is registered already" in said["error"]) == (1, True)
    code, said = ask(node, capsys, "top-up")
    assert (code, "nothing had to be sent" in said["words"]) == (0, True)
    with closing(RequestBook(node.home / layout.REQUESTS)) as book:
        assert book.open() == []


def test_exit_reveal_claim_withdraw_to_the_wei(net: FormulaNetwork, node: FormulaNode, capsys: Capture) -> None:
    """The node ended between the request and its sending; after the withdrawal it ends, as nothing is left to do."""
    now = net.clock.round()
    node.stop()
    with closing(RequestBook(node.home / layout.REQUESTS)) as book:
        assert ask(node, capsys, "exit", "--wait", "0")[1]["state"] == "asked"
        assert ask(node, capsys, "exit", "--wait", "0")[1]["request"] == book.open()[0].id, "asked twice, sent once"
        node.start()
        serve_until(net, lambda: not book.open())
    info = net.reader.node_of(node.address)
    assert info.state is NodeState.EXITING
    net.play_to(now + 2)
    code, facts = ask(node, capsys, "status")
    assert (code, facts["reasons"]) == (0, [])
    round_ = (info.exit_block - net.deployment.first_block) // net.deployment.spec.chain.round_blocks
    assert f"block {info.exit_block}, in round {round_}, in about" in facts["exit"]
    code, said = ask(node, capsys, "withdraw", "--to", RECEIVER)
    assert (code, f"in round {round_}" in said["error"]) == (1, True)
    net.play_to(round_ + 1)
    assert batches_of(net, node, now + 2) == [], "nothing new was promised"
    assert AuditsReader(net.reader).is_settled(node.address), "and all that was is revealed"
    assert ask(node, capsys, "withdraw", "--to", RECEIVER, "--wait", "0")[1]["state"] in ("asked", "put")
    others = net.nodes[1:]
    deadline = time.monotonic() + SECONDS
    while node.alive and time.monotonic() < deadline:
        if not net.clock.tick(lambda now: all(each.done(now) for each in net.nodes)):
            time.sleep(0.02)
    assert not node.alive
    assert node.failure == ""
    assert all(each.alive for each in others)
    assert net.reader.node_of(node.address).state is NodeState.WITHDRAWN
    bond = int(net.deployment.spec.chain.bond, 16)
    assert net.reader.balance(RECEIVER) == bond
    assert net.reader.balance(node.address) == FUNDS - bond - gas_of(net, node), "gas, and nothing else"
    pays = AuditsReader(net.reader).payouts_of(node.address, range(net.clock.round()))
    assert all(pay.claimed for pay in pays if pay.amount)
    earned = sum(pay.amount for pay in pays)
    assert net.reader.call(Call("token", "balanceOf", (node.address,))) == earned > 0


def gas_of(net: FormulaNetwork, node: FormulaNode) -> int:
    """Wei that all transactions of the node's key took."""
    w3, total, count = Web3(HTTPProvider(net.chain.url)), 0, 0
    with closing(Outbox(node.home / layout.OUTBOX, net.reader, node._account)) as outbox:
        hashes = [hash_ for _, hash_, _ in outbox.signed(0)]
    for hash_ in hashes:
        with suppress(TransactionNotFound):  # replaced by another one
            receipt = w3.eth.get_transaction_receipt(HexBytes(hash_))
            total += receipt["gasUsed"] * receipt["effectiveGasPrice"]
            count += 1
    assert count == w3.eth.get_transaction_count(to_checksum_address(node.address))
    return total
