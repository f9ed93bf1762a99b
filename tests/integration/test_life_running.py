"""A node's life while it runs, on a network of formula nodes: what is asked of it goes through its own outbox, in its
own order; a pause, an exit, and a withdrawal that ends it. The tests of this file are one story, in their order."""

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from eth_account import Account
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes
from web3 import HTTPProvider, Web3
from web3.exceptions import TransactionNotFound

from sapo_client import cli
from sapo_client.state import home as layout
from sapo_client.state.requests import PAUSED, RequestBook
from sapo_client.state.settings import ChainSettings, IpfsSettings, PolicySettings, Settings
from sapo_client.transactions.outbox import Outbox
from sapo_devnet import Devnet
from sapo_devnet.chain import FUNDS
from sapo_devnet.formula_nodes import FormulaNode
from sapo_devnet.testkit.swarm import sapo
from sapo_verifier import keystore
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import NodeState
from sapo_verifier.schedule import FINAL_AFTER

PAUSE, ROUNDS = 3, 2
RECEIVER = "0x" + "ab" * 20

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    with Devnet(formula=3, pace="hand", folder=tmp_path_factory.mktemp("life")) as made:
        play_to(made, ROUNDS)
        yield made


@pytest.fixture(scope="module")
def node(net: Devnet) -> Iterator[FormulaNode]:
    """Its home has what commands need, too, and is held as a process holds it."""
    node = net.nodes[0]
    assert isinstance(node, FormulaNode)
    ipfs = IpfsSettings(daemon="external", api=node._shared.api, endpoint=node.gateway, allow_private=True)
    chain = ChainSettings(rpc=net.rpc, deployment=net.deployment_file)
    Settings(chain=chain, policy=PolicySettings(folder=net.folder), ipfs=ipfs).write(node.home)
    secret = Account.encrypt(node._account.key, "secret", kdf="scrypt", iterations=keystore.LIGHT_WORK_FACTOR)
    (node.home / layout.KEYSTORE).write_text(json.dumps(secret))
    with layout.only_one(node.home):
        yield node


def play_to(net: Devnet, round_: int) -> None:
    """Until all nodes are done with that round."""
    net.until_round(round_)
    net.until(lambda: all(node.done(round_) for node in net.nodes), what="all are done with the round")


def ask(node: FormulaNode, capsys: Capture, *words: str) -> tuple[int, dict[str, Any]]:
    if words[0] == "status":  # in a process of its own: it drops all connections that are late
        done = sapo(*words, "--home", node.home, "--json")
        return done.returncode, json.loads(done.stdout)
    capsys.readouterr()
    code = cli.main([words[0], "--home", str(node.home), *words[1:], "--json"])
    return code, json.loads(capsys.readouterr().out)


def batches_of(net: Devnet, node: FormulaNode, first: int) -> list[int]:
    """The rounds in which it has a batch, from `first` on."""
    return [r for r in range(first, net.round + 1) if net.reader.batch_of(node.address, r) is not None]


def test_a_pause_keeps_what_is_promised_and_promises_nothing(net: Devnet, node: FormulaNode, capsys: Capture) -> None:
    now = net.round
    assert ask(node, capsys, "pause", "--rounds", str(PAUSE))[1]["until"] == now + PAUSE
    play_to(net, now + 1)
    net.kill_node(0)
    net.start_node(0)  # a restart changes nothing
    play_to(net, now + 2)
    code, facts = ask(node, capsys, "status")
    assert facts["paused"] == f"until round {now + PAUSE}: it promises nothing new"
    assert (code, facts["reasons"]) == (0, [])
    play_to(net, now + PAUSE + 3)
    assert batches_of(net, node, now) == [now, now + 1, now + PAUSE + 1, now + PAUSE + 2, now + PAUSE + 3]
    audits = AuditsReader(net.reader)
    voted = [r for r in range(now - 1, now + PAUSE + 2) if audits.verdicts_of(node.address, r, 1)[0].value != "none"]
    assert voted == [now - 1, now + PAUSE + 1], "one round later, on those in which it has a batch"
    info = net.reader.node_of(node.address)
    assert (info.active, audits.is_settled(node.address)) == (True, True), "no fee was due"
    skipped = {report["round"]: report["skipped"] for report in node.rounds()}
    assert all(skipped[r].startswith(PAUSED) for r in range(now + 2, now + PAUSE + 1))
    assert ask(node, capsys, "status")[1]["reasons"] == [], "nor is what was meant so a reason later"


def test_a_pause_that_ends_early(net: Devnet, node: FormulaNode, capsys: Capture) -> None:
    now = net.round
    ask(node, capsys, "pause", "--rounds", "50")
    play_to(net, now + 1)
    assert ask(node, capsys, "resume")[1]["ended"] is True
    play_to(net, now + 3)
    assert batches_of(net, node, now + 1) == [now + 1, now + 3]
    assert "paused" not in ask(node, capsys, "status")[1]


def test_a_new_endpoint_is_the_nodes_own(net: Devnet, node: FormulaNode, capsys: Capture) -> None:
    """And not set back. `--wait` tells that it is mined, and a second one of the same joins the first."""
    there = node.gateway.replace("/ip4/127.0.0.1/", "/dns4/localhost/")
    code, said = ask(node, capsys, "set-endpoint", there, "--wait", "60")
    assert (code, said["state"]) == (0, "done")
    assert net.reader.node_of(node.address).endpoint == there
    assert Settings.load(node.home).ipfs.endpoint == there
    play_to(net, net.round + 1)
    assert net.reader.node_of(node.address).endpoint == there, "nobody took it for a second program's doing"
    assert node.status()["endpoint"] == there
    assert ask(node, capsys, "status")[1]["reasons"] == []
    # A formula node that is started again serves where it did before.
    assert ask(node, capsys, "set-endpoint", node.gateway, "--wait", "0")[1]["state"] in ("asked", "put")
    net.until(lambda: net.reader.node_of(node.address).endpoint == node.gateway)


def test_refusals_of_a_running_node(net: Devnet, node: FormulaNode, capsys: Capture) -> None:
    code, said = ask(node, capsys, "withdraw", "--to", RECEIVER)
    assert (code, said["status"]) == (1, 1)
    assert "did not ask to exit" in said["error"]
    code, said = ask(node, capsys, "register")
    assert (code, "is registered already" in said["error"]) == (1, True)
    code, said = ask(node, capsys, "top-up")
    assert (code, "nothing had to be sent" in said["words"]) == (0, True)
    with closing(RequestBook(node.home / layout.REQUESTS)) as book:
        assert not {request.kind for request in book.open()} & {"withdraw", "register", "top-up"}


def test_exit_reveal_claim_withdraw_to_the_wei(net: Devnet, node: FormulaNode, capsys: Capture) -> None:
    """The node ended between the request and its sending; after the withdrawal it ends, as nothing is left to do."""
    now = net.round
    net.kill_node(0)
    with closing(RequestBook(node.home / layout.REQUESTS)) as book:
        asked = ask(node, capsys, "exit", "--wait", "0")[1]
        assert asked["state"] == "asked"
        assert ask(node, capsys, "exit", "--wait", "0")[1]["request"] == asked["request"], "asked twice, sent once"
        net.start_node(0)
        net.until(lambda: not book.open())
    info = net.reader.node_of(node.address)
    assert info.state is NodeState.EXITING
    play_to(net, now + 2)
    code, facts = ask(node, capsys, "status")
    assert (code, facts["reasons"]) == (0, [])
    round_ = (info.exit_block - net.deployment.first_block) // net.deployment.spec.chain.round_blocks
    assert f"block {info.exit_block}, in round {round_}, in about" in facts["exit"]
    code, said = ask(node, capsys, "withdraw", "--to", RECEIVER)
    assert (code, f"in round {round_}" in said["error"]) == (1, True)
    play_to(net, round_ + 1)
    assert batches_of(net, node, now + 2) == [], "nothing new was promised"
    assert AuditsReader(net.reader).is_settled(node.address), "and all that was is revealed"
    assert ask(node, capsys, "withdraw", "--to", RECEIVER, "--wait", "0")[1]["state"] in ("asked", "put")
    others = net.nodes[1:]
    while node.alive and net.round < round_ + FINAL_AFTER:
        net.next_round()
    assert [part.exit_status() for part in node.workers()] == [0], "it has ended by itself, in order"
    assert all(each.alive for each in others)
    assert net.reader.node_of(node.address).state is NodeState.WITHDRAWN
    bond = int(net.deployment.spec.chain.bond, 16)
    assert net.reader.balance(RECEIVER) == bond
    assert net.reader.balance(node.address) == FUNDS - bond - gas_of(net, node), "gas, and nothing else"
    pays = AuditsReader(net.reader).payouts_of(node.address, range(net.round))
    assert all(pay.claimed for pay in pays if pay.amount)
    earned = sum(pay.amount for pay in pays)
    assert net.reader.call(Call("token", "balanceOf", (node.address,))) == earned > 0


def gas_of(net: Devnet, node: FormulaNode) -> int:
    """Wei that all transactions of the node's key took."""
    w3, total, count = Web3(HTTPProvider(net.rpc)), 0, 0
    with closing(Outbox(node.home / layout.OUTBOX, net.reader, node._account)) as outbox:
        hashes = [hash_ for _, hash_, _ in outbox.signed(0)]
    for hash_ in hashes:
        with suppress(TransactionNotFound):  # replaced by another one
            receipt = w3.eth.get_transaction_receipt(HexBytes(hash_))
            total += receipt["gasUsed"] * receipt["effectiveGasPrice"]
            count += 1
    assert count == w3.eth.get_transaction_count(to_checksum_address(node.address))
    return total
