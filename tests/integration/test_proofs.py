"""Fraud proofs against the real contract: what find_proof finds is accepted, and nothing holds against honest work."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from web3 import HTTPProvider

from sapo_devnet.formula.policy import write_tokenizer
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.formula import LIMIT, POLICY, SLOTS, SPEC, Draft, Sealed, honest, loose_json, small_spec
from sapo_devnet.testkit.networks import BOND, Network, deploy_on
from sapo_verifier import protocol
from sapo_verifier.audit import Audit
from sapo_verifier.bases import Tokenizer
from sapo_verifier.chain.audits import AuditsReader, BatchState
from sapo_verifier.chain.contracts import Argument, Call, abi, signature_hash
from sapo_verifier.chain.errors import ChainError, ChainUnavailable
from sapo_verifier.chain.reader import ChainReader, NodeState
from sapo_verifier.cid import block_digest
from sapo_verifier.objects import Record, encode_records
from sapo_verifier.proofs import find_proof
from sapo_verifier.protocol import word
from sapo_verifier.schedule import PROVERS_PART
from sapo_verifier.tasks import TaskWorker
from voters import address, begin, register, send

R = 1
HONEST = 9  # the account whose batch has no fault
TOP = 2**64 - 1
PROVER = 0


def bend_above(draft: Draft, u: Callable[[int, int, int], int]) -> None:
    draft.slots[1].records[2][1] = Record(5, u(1, 2, 1) + 1, TOP)


def bend_below(draft: Draft, u: Callable[[int, int, int], int]) -> None:
    draft.slots[2].records[3][0] = Record(5, 0, u(2, 3, 0) - 1)


def bend_empty(draft: Draft, u: Callable[[int, int, int], int]) -> None:
    draft.slots[0].records[0][0] = Record(5, u(0, 0, 0) + 1, u(0, 0, 0))


def bend_late_chunk(draft: Draft, _: object) -> None:
    draft.slots[2].records[1] = [Record(5, 0, TOP)] * 69 + [Record(5, 1, 0)]


def bend_no_records(draft: Draft, _: object) -> None:
    draft.slots[0].records[1] = []
    draft.slots[0].raw_records = encode_records(draft.slots[0].records)


def bend_too_many(draft: Draft, _: object) -> None:
    draft.slots[0].records[1] = [Record(5, 0, TOP)] * 71
    draft.slots[0].raw_records = encode_records(draft.slots[0].records)


BENT = (bend_above, bend_below, bend_empty, bend_late_chunk, bend_no_records, bend_too_many)


@dataclass
class World:
    network: Network
    reader: ChainReader
    sealed: dict[int, Sealed]  # by account
    worker: TaskWorker
    tokens: Tokenizer

    def audit(self, account: int) -> Audit:
        return self.sealed[account].audit(self.worker, lambda _: self.tokens)

    def refuses_all(self, calls: Sequence[Call]) -> set[str]:
        """The selectors of the contract's reasons, each an error of its own: no panic, no call that is misread."""
        provider, selectors = self.network.chain.w3.provider, set()
        assert isinstance(provider, HTTPProvider)
        for at in range(0, len(calls), 100):
            part = calls[at : at + 100]
            requests: Any = [
                (
                    "eth_call",
                    [{"to": self.reader.address_of(call.contract), "data": "0x" + call.encode().hex()}, "latest"],
                )
                for call in part
            ]
            for call, answer in zip(part, provider.make_batch_request(requests), strict=True):
                assert "error" in answer, f"accepted: {call}"
                selectors.add(str(answer["error"]["data"])[:10])  # type: ignore[index]
        known = {"0x" + signature_hash(entry)[:4].hex() for entry in abi("Proofs") if entry["type"] == "error"}
        assert selectors <= known
        return selectors

    def refuses(self, call: Call) -> str:
        """The contract's reason. Fails if it has none."""
        try:
            self.reader.call(call, sender=address(self.network, PROVER))
        except ChainUnavailable:
            raise
        except ChainError as error:
            return str(error)
        raise AssertionError(f"accepted: {call}")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Six nodes with a fault each (accounts 1 … 6), one without, all with their batches in round R."""
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    bases = [base.model_dump(mode="json") | {"context": 4096} for base in SPEC.bases]
    spec = small_spec(max_new_tokens=70, bases=bases, chain=SPEC.chain.model_dump() | {"round_blocks": 16})
    with anvil() as chain, TaskWorker() as worker:
        network = deploy_on(chain, spec)
        accounts = [*range(1, len(BENT) + 1), HONEST]
        register(network, accounts)
        network.mine_to_round(R - 1)
        policy = block_digest(loose_json(POLICY))
        nodes = {account: address(network, account) for account in accounts}
        commits = [(i, Call("rounds", "commitPolicy", (node, R, policy, SLOTS)), 0) for i, node in nodes.items()]
        send(network, commits)
        beacon = begin(network, R)
        sealed = {i: made(worker, network, node, beacon, i) for i, node in nodes.items()}
        facts = {i: each.facts for i, each in sealed.items()}
        calls = [
            (i, Call("rounds", "submit", (nodes[i], R, beacon, each.manifest, each.root, each.claim)), 0)
            for i, each in facts.items()
        ]
        send(network, calls)
        reader = network.reader()
        for i, each in sealed.items():
            index = reader.batch_of(nodes[i], R)
            assert index is not None
            each.facts = replace(each.facts, index=index)
        yield World(network, reader, sealed, worker, Tokenizer(folder))
        network.close()


def made(worker: TaskWorker, network: Network, node: str, beacon: bytes, account: int) -> Sealed:
    draft = honest(worker, node=node, round_=R, beacon=beacon, spec=network.spec)
    draft.facts = replace(draft.facts, rounds=network.deployment.contracts.rounds)
    policy = block_digest(loose_json(POLICY))

    def u(slot: int, k: int, t: int) -> int:
        return protocol.stream_value(protocol.stream_key(beacon, policy, node, slot, k), t)

    if account != HONEST:
        BENT[account - 1](draft, u)
    return draft.seal()


@pytest.fixture
def world_back(world: World) -> Iterator[World]:
    """The world, set back afterwards."""
    point = world.network.chain.rpc("evm_snapshot")
    yield world
    assert world.network.chain.rpc("evm_revert", point)


@pytest.mark.parametrize("account", range(1, len(BENT) + 1), ids=[bend.__name__ for bend in BENT])
def test_what_is_found_is_proven(world_back: World, account: int) -> None:
    world, chain = world_back, world_back.network.chain
    proof = find_proof(world.audit(account))
    assert proof is not None
    before = world.reader.balance(address(world.network, 8))
    send(world.network, [(8, proof.call, 0)])
    node = address(world.network, account)
    assert AuditsReader(world.reader).outcome_of(world.sealed[account].facts.index).state is BatchState.PROVEN_FALSE
    assert world.reader.node_of(node).state is NodeState.SLASHED
    assert (
        BOND // PROVERS_PART - BOND // 100
        < world.reader.balance(address(world.network, 8)) - before
        < BOND // PROVERS_PART
    )
    assert "nothing can be proven" in world.refuses(proof.call) or "closed" in world.refuses(proof.call)
    assert chain.w3.eth.get_block("latest")["gasUsed"] < 400_000


@pytest.mark.parametrize("later", [0, 3, 5])
def test_until_the_round_is_final(world_back: World, later: int) -> None:
    proof = find_proof(world_back.audit(1))
    assert proof is not None
    world_back.network.mine_to_round(R + later)
    world_back.reader.call(proof.call)
    world_back.network.mine_to_round(R + 6)
    world_back.network.chain.mine()
    world_back.refuses(proof.call)


def test_no_variant_of_a_proof_holds_against_honest_work(world: World) -> None:
    """Every record, length, chunk and pad of an honest batch, shown as it is, and shown in every wrong way."""
    audit = world.audit(HONEST)
    assert find_proof(audit) is None
    calls = variants(audit)
    reasons = world.refuses_all(calls)
    assert len(calls) > 200
    assert len(reasons) == 6, "all reasons but ChunkIsFalse, for which the root has to hold a false chunk"


def variants(audit: Audit) -> list[Call]:
    index = audit.facts.index
    packed = [each for slot in audit.records for each in slot]
    leaves = [protocol.leaf(i, len(each) // 20, protocol.records_root(each)) for i, each in enumerate(packed)]
    calls = []
    for i, each in enumerate(packed):
        n, root, path = len(each) // 20, protocol.records_root(each), tuple(protocol.merkle_path(leaves, i))
        leaf, chunk = (i, n, root, path), (0, each, ())
        calls += [Call("proofs", "proveRecord", (index, leaf, chunk, t)) for t in (*range(n), n, 2**256 - 1)]
        calls += [Call("proofs", "proveLength", (index, (i, m, root, path))) for m in (n, 0, LIMIT + 1, n + 2**255)]
        calls += [Call("proofs", "proveChunk", (index, (i, n, root, path), (c, each, ()))) for c in (0, 1, 2**256 - 1)]
        calls += [Call("proofs", "proveChunk", (index, leaf, (0, part, ()))) for part in (each[:-1], each + b"\0", b"")]
        others = [((i + 1) % len(packed), n, root, path), (i + len(packed), n, root, path), (i, n, root, path[1:])]
        others += [(i, n, root, (*path, bytes(32))), (i, n, root, path[::-1]), (i + 2**255, n, root, path)]
        calls += [Call("proofs", "proveRecord", (index, other, chunk, 0)) for other in others]
        # An inner node, shown as if it were a leaf or a chunk.
        calls += [Call("proofs", "proveLength", (index, (i // 2, 0, root, path[1:])))]
        calls += [Call("proofs", "proveRecord", (index, leaf, (1, each, (root,)), 0))]
    count = 1 << (len(leaves) - 1).bit_length()
    for position in (*range(count), count, 2**256 - 1):
        path = tuple(protocol.merkle_path(leaves, position)) if position < count else ()
        words = [bytes(32), word(1), leaves[0]]
        calls += [Call("proofs", "provePad", (index, position, each, path)) for each in words]
    return calls


def test_no_proof_against_one_batch_holds_against_another(world: World) -> None:
    for account in range(1, len(BENT) + 1):
        proof = find_proof(world.audit(account))
        assert proof is not None
        others = [sealed.facts.index for other, sealed in world.sealed.items() if other != account]
        world.refuses_all([replace(proof.call, args=(index, *proof.call.args[1:])) for index in others])
        world.refuses(replace(proof.call, args=(10**6, *proof.call.args[1:])))


@pytest.mark.parametrize("seed", range(4))
def test_mutated_proofs_are_refused(world: World, seed: int) -> None:
    """A true proof with any one thing changed proves nothing."""
    rng = random.Random(seed)
    for account in (1, 2, 3, 5, 6):
        proof = find_proof(world.audit(account))
        assert proof is not None
        index, *parts = proof.call.args
        made = [(index, *(mutated(rng, part) for part in parts)) for _ in range(50)]
        world.refuses_all([replace(proof.call, args=args) for args in made if args != proof.call.args])


def mutated(rng: random.Random, value: Argument) -> Argument:
    """Mostly the same, with one field, byte, bit or element changed; sometimes as it was."""
    if isinstance(value, tuple):
        if not value:
            return (rng.randbytes(32),) if rng.random() < 0.3 else value
        at = rng.randrange(len(value))
        return (*value[:at], mutated(rng, value[at]), *value[at + 1 :])
    if isinstance(value, bytes):
        if len(value) != 32 and rng.random() < 0.3:
            return value[: rng.randrange(len(value) + 1)]
        at = rng.randrange(len(value)) if value else 0
        return value[:at] + bytes([value[at] ^ 1 << rng.randrange(8)]) + value[at + 1 :] if value else b"\1"
    assert isinstance(value, int)
    return rng.choice([value ^ 1 << rng.randrange(256), value + 1, 2**256 - 1])
