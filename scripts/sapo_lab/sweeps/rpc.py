"""Hostile answers of the chain's RPC through reader, events and outbox: only SapoError leaves, all is bounded."""

import random
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from sapo_client.transactions.outbox import Outbox
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.networks import BOND, Network, deploy_on
from sapo_lab.sweeps.hostile_rpc import Liar, liar
from sapo_lab.sweeps.tally import Tally
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import pages
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import SapoError

TIMEOUT = 0.2  # seconds for one answer; three tries
LIMIT_SECONDS = 20.0  # an outbox makes up to ten requests; on a busy machine
LIMIT_MIB = 500.0
ENDPOINT = Call("nodes", "setEndpoint", ("/ip4/10.0.0.1/tcp/81/http",))
DIGEST = bytes.fromhex("ab" * 32)


def sweep(count: int, seed: int) -> Tally:
    """Cases seed … seed + count − 1. Raises AssertionError, naming the case, at the first one that breaks a rule."""
    tally = Tally(LIMIT_SECONDS, LIMIT_MIB)
    with anvil() as chain, tempfile.TemporaryDirectory() as folder:
        network = deploy_on(chain)
        node = publish(network)
        with liar(chain.url) as rpc:
            for case in range(seed, seed + count):
                one(case, rpc, network, node, Path(folder) / f"{case}.sqlite", tally)
        network.close()
    return tally


def publish(network: Network) -> str:
    """One node with a batch in round 1, and round 2's beacon, so that there is something to lie about. Its address."""
    chain, reader = network.chain, network.reader()
    owner = chain.account(1).address.lower()

    def send(call: Call, value: int = 0) -> None:
        target = chain.w3.to_checksum_address(reader.address_of(call.contract))
        request: Any = {"from": chain.account(1).address, "to": target, "data": "0x" + call.encode().hex()}
        hash_ = chain.w3.eth.send_transaction(request | {"value": value})
        assert chain.w3.eth.wait_for_transaction_receipt(hash_)["status"] == 1

    send(Call("nodes", "register", (owner, "/ip4/10.0.0.1/tcp/80/http")), BOND)
    network.mine_to_round(0)
    send(Call("rounds", "commitPolicy", (owner, 1, DIGEST, 2)))
    network.mine_to_round(1)
    chain.mine()
    send(Call("rounds", "poke"))
    beacon = reader.beacon(1)
    assert beacon is not None
    send(Call("rounds", "submit", (owner, 1, beacon, DIGEST, DIGEST, 5)))
    network.mine_to_round(2)
    chain.mine()
    send(Call("rounds", "poke"))
    return owner


def one(case: int, rpc: Liar, network: Network, node: str, outbox: Path, tally: Tally) -> None:
    """One question, or a sequence of them, to an RPC that lies about some or all of it."""
    rng = random.Random(case)
    reader = ChainReader(rpc.url, network.deployment, timeout=TIMEOUT)
    name, ask = _question(rng, reader, network, node, outbox)
    rpc.rng, rpc.odds = random.Random(case), rng.choice((1.0, 1.0, 0.5, 0.2))

    def attempt() -> SapoError | None:
        try:
            ask()
        except SapoError as error:
            return error
        return None

    try:
        refusal = tally.measured(f"{name} {case}", attempt)
    except Exception as error:
        error.add_note(f"case {case}, {name}")
        raise
    finally:
        reader.close()
    assert len(str(refusal)) < 5000, f"case {case}: an error of {len(str(refusal))} characters"
    tally.count(f"{name}: {type(refusal).__name__ if refusal else 'answered'}")


def _question(
    rng: random.Random, reader: ChainReader, network: Network, node: str, path: Path
) -> tuple[str, Callable[[], Any]]:
    def pump() -> None:
        outbox = Outbox(path, reader, network.chain.account(1))
        try:
            outbox.put("endpoint", ENDPOINT, deadline_round=rng.choice((None, 0, 50)))
            for _ in range(2):
                outbox.pump()
        finally:
            outbox.close()
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink()

    questions: list[tuple[str, Callable[[], Any]]] = [
        ("check", reader.check),
        ("reset?", reader.check_not_reset),
        ("clock", lambda: (reader.block_number(), reader.current_round())),
        ("round", lambda: (reader.beacon(1), reader.round_at(1), reader.window_start(node, 1, 1))),
        ("batches", lambda: reader.batches_of(1)),
        ("batch", lambda: (reader.batch_count(), reader.batch_at(0), reader.batch_of(node, 1))),
        ("node", lambda: (reader.node_of(node), reader.policy_of(node, 1), reader.balance(node))),
        ("events", lambda: list(islice(pages(reader, None, chunk=20), 20))),
        ("outbox", pump),
    ]
    return rng.choice(questions)
