"""Many nodes that publish honest batches, without torch: a formula for a policy, a real chain, a real daemon."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sapo_devnet.formula.policy import write_tokenizer
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.formula import POLICY, SLOTS, SPEC, Sealed, honest, loose_json
from sapo_devnet.testkit.formula import small_spec as batch_spec
from sapo_devnet.testkit.ipfs_daemon import Daemon, ipfs_daemon
from sapo_devnet.testkit.networks import Network, deploy_on
from sapo_verifier.bases import Tokenizer
from sapo_verifier.chain.contracts import Call
from sapo_verifier.cid import block_digest
from sapo_verifier.ipfs import BlockStore
from sapo_verifier.spec import BaseRule
from sapo_verifier.tasks import TaskWorker

GAS = 2_000_000  # for each transaction; nothing is estimated
ROUND_BLOCKS = 16


@dataclass
class Publishers:
    """rounds: the number of batches, and the round that has as many. The first of `nodes` publishes in all of them."""

    network: Network
    daemon: Daemon
    nodes: list[str]
    rounds: dict[int, int]
    worker: TaskWorker
    tokens: Tokenizer

    def tokenizer(self, _: BaseRule) -> Tokenizer:
        return self.tokens

    def policy(self) -> Any:
        """What `training_groups` looks at of a node's own policy: here everybody has the same base."""
        return _Policy(self.network.spec.bases[0], self.tokens)


@dataclass
class _Policy:
    base: BaseRule
    tokenizer: Tokenizer


@contextmanager
def publishers(folder: Path, counts: Sequence[int]) -> Iterator[Publishers]:
    """In rounds 1, 3, 5, … as many nodes as `counts` says publish, and the beacon that deals the windows is there."""
    spec = batch_spec(chain=SPEC.chain.model_dump() | {"round_blocks": ROUND_BLOCKS})
    write_tokenizer(folder)
    most = max(counts)
    options = ("--accounts", str(most + 1), "--gas-limit", "1000000000")
    with anvil(*options) as chain, ipfs_daemon(folder) as daemon, TaskWorker() as worker:
        network = deploy_on(chain, spec, first_block=64)
        nodes = [str(address).lower() for address in chain.w3.eth.accounts[1 : most + 1]]
        made = Publishers(network, daemon, nodes, {}, worker, Tokenizer(folder))
        chain.rpc("evm_setAutomine", False)
        _send(
            made,
            [(node, Call("nodes", "register", (node, daemon.gateway)), int(spec.chain.bond, 16)) for node in nodes],
        )
        for position, count in enumerate(counts):
            made.rounds[count] = 1 + 2 * position
            _publish(made, nodes[:count], 1 + 2 * position)
        yield made
        network.close()


def _publish(made: Publishers, nodes: list[str], round_: int) -> None:
    policy, reader = block_digest(loose_json(POLICY)), made.network.reader()
    made.network.mine_to_round(round_ - 1)
    _send(made, [(node, Call("rounds", "commitPolicy", (node, round_, policy, SLOTS)), 0) for node in nodes])
    beacon = _capture(made, round_)
    sealed = [_batch(made, node, round_, beacon) for node in nodes]
    with BlockStore(made.daemon.api, allow_private=True) as store, ThreadPoolExecutor(8) as pool:
        blocks = {digest: block for each in sealed for digest, block in each.blocks.items()}
        list(pool.map(store.put, blocks.values()))
    calls = []
    for node, each in zip(nodes, sealed, strict=True):
        facts = each.facts
        arguments = (node, round_, beacon, facts.manifest, facts.root, facts.claim)
        calls.append((node, Call("rounds", "submit", arguments), 0))
    _send(made, calls)
    assert reader.round_at(round_).count == len(nodes)
    _capture(made, round_ + 1)


def _batch(made: Publishers, node: str, round_: int, beacon: bytes) -> Sealed:
    draft = honest(made.worker, node=node, round_=round_, beacon=beacon, spec=made.network.spec)
    draft.facts = replace(draft.facts, rounds=made.network.deployment.contracts.rounds)
    return draft.seal()


def _capture(made: Publishers, round_: int) -> bytes:
    made.network.mine_to_round(round_)
    made.network.chain.mine()
    _send(made, [(made.nodes[0], Call("rounds", "poke"), 0)])
    beacon = made.network.reader().beacon(round_)
    assert beacon is not None
    return beacon


def _send(made: Publishers, calls: list[tuple[str, Call, int]]) -> None:
    """All in one block; all must succeed."""
    w3, reader = made.network.chain.w3, made.network.reader()
    hashes = []
    for sender, call, value in calls:
        target = w3.to_checksum_address(reader.address_of(call.contract))
        request: Any = {"from": w3.to_checksum_address(sender), "to": target, "data": "0x" + call.encode().hex()}
        hashes.append(w3.eth.send_transaction(request | {"gas": GAS, "value": value}))
    made.network.chain.mine()
    for (sender, call, _), hash_ in zip(calls, hashes, strict=True):
        if w3.eth.get_transaction_receipt(hash_)["status"] != 1:
            reader.call(call, sender=sender)  # says why
            raise AssertionError(f"{call.function} of {sender} failed")
