"""N nodes in one process that do on chain what honest nodes do: register, commit, publish, vote.

Lighter than formula nodes (sapo_devnet/formula_nodes.py): the chain holds their keys, everything of a round is sent at
once, and a batch is looked at once for all of them, as they have one seed. What is measured is others' work.
"""

import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

from eth_hash.auto import keccak

from sapo_client.duties.verdicts import report_block
from sapo_devnet.chain import Chain
from sapo_devnet.formula.batches import formula_batch, published_formula
from sapo_devnet.formula.judging import FormulaModel
from sapo_devnet.formula.shared import Shared
from sapo_verifier import protocol
from sapo_verifier.audit import Audit, Found, fetch_batch
from sapo_verifier.bases import Bases
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.checks import Verdict
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import SapoError
from sapo_verifier.facts import BatchFacts, BatchInfo
from sapo_verifier.ipfs import BlockStore
from sapo_verifier.model import policy_model
from sapo_verifier.schedule import window_size
from sapo_verifier.spots import Spots, encode_answers

GAS = 1_000_000  # for each transaction; nothing is estimated
PRICE = 10**12  # wei of a gas: more than full blocks can make it
MOST_BLOCKS = 40  # for what is sent at once; a round has 64
CALLS = 200  # in one HTTP request
SECONDS = 120.0  # for one of those
SEED = bytes(31) + b"\1"  # of every node and round, and their salt: nobody copies the votes of a test


@dataclass(frozen=True)
class Sending:
    """A transaction of one of them. wei: what it sends."""

    sender: str
    call: Call
    wei: int = 0


class Crowd:
    """`join` before round 0; then `play` once in each round, before the others go on."""

    def __init__(
        self, chain: Chain, reader: ChainReader, shared: Shared, nodes: Sequence[str], endpoint: str, bases: Bases
    ) -> None:
        """nodes: addresses of accounts that the chain holds; endpoint: where others find their blocks; bases: of the
        nodes beside them that run a model."""
        self.gas = 0  # of all its transactions of the round that was played last
        self._chain = chain
        self._reader = reader
        self._shared = shared
        self._nodes = nodes
        self._endpoint = endpoint
        self._policy = published_formula(shared.base).under(keccak(SEED))
        self._store = BlockStore(shared.api, allow_private=True)
        self._nonces: Counter[str] = Counter()  # of the next transaction of each; nobody else sends for them
        self._bases = bases
        self._model = FormulaModel(policy_model(bases))
        self._blocks: dict[bytes, dict[bytes, Found]] = {}  # of batches that are to be voted on, by manifest
        self._ballots: dict[int, list[tuple[int, bytes, bytes]]] = {}  # by round: word, report, answers of each node

    def close(self) -> None:
        self._store.close()

    def join(self) -> None:
        """All register, in one block."""
        bond = int(self._shared.deployment.spec.chain.bond, 16)
        self._send([Sending(node, Call("nodes", "register", (node, self._endpoint)), bond) for node in self._nodes])
        self._put([self._policy.manifest, *self._policy.blocks])

    def play(self, round_: int, *, publish: bool, last: bool) -> None:
        """Everything that is due in a round. publish: whether there is a batch in it; last: none in the next one."""
        self.gas = 0
        beacon = self._beacon(round_)
        sendings = self._submissions(round_, beacon) if publish else []
        sendings += self._commitments(round_ - 1, beacon) + self._reveals(round_ - 2)
        if not last:
            for node in self._nodes:
                commit = Call("rounds", "commitPolicy", (node, round_ + 1, self._policy.digest, 1))
                sendings.append(Sending(node, commit))
        self._send(sendings)

    def _beacon(self, round_: int) -> bytes:
        """Poked by the first of them."""
        if self._reader.beacon(round_) is None:
            self._send([Sending(self._nodes[0], Call("rounds", "poke"))])
        beacon = self._reader.beacon(round_)
        if beacon is None:
            raise SapoError(f"round {round_} has no beacon after a poke")
        return beacon

    def _submissions(self, round_: int, beacon: bytes) -> list[Sending]:
        deployment, blocks, sendings = self._shared.deployment, [], []
        for node in self._nodes:
            facts = BatchFacts.dealt(
                deployment.chain_id, deployment.contracts.rounds, round_, node, beacon, self._policy.digest, 1
            )
            made, own = formula_batch(deployment.spec, facts, self._shared.base, self._shared.worker)
            blocks += list(own.values())
            self._blocks[made.manifest] = {**own, self._policy.digest: self._policy.manifest}
            arguments = (node, round_, beacon, made.manifest, made.root, made.claim)
            sendings.append(Sending(node, Call("rounds", "submit", arguments)))
        self._put(blocks)
        return sendings

    def _commitments(self, voted: int, dealer: bytes) -> list[Sending]:
        """On the round before: each accepts its window. dealer: the beacon that deals it."""
        info = self._reader.round_at(voted) if voted >= 0 else None
        if info is None or info.count == 0:
            return []
        batches = self._reader.batches_at(range(info.first, info.first + info.count))
        position = {batch.node: batch.index - info.first for batch in batches}
        answers = {batch.index - info.first: self._answers(batch, dealer) for batch in batches}
        size = window_size(self._shared.deployment.spec.chain.draws, 1)
        ballots, sendings = [], []
        for node in self._nodes:
            if (own := position.get(node)) is None:
                continue  # only who has a batch votes
            start = protocol.permuted(dealer, 1, own, info.count)
            window = protocol.window(start, info.count, own, size)
            word = sum(Verdict.ACCEPT << (2 * j) for j in range(len(window)))
            accepted = {info.first + each: Verdict.ACCEPT for each in window}
            report = report_block(voted, 1, node, accepted, {index: [] for index in accepted})
            told = encode_answers([token for each in window for token in answers[each]])
            ballots.append((word, report, told))
            hash_ = protocol.verdicts_hash(dealer, info.acc, node, 1, word, block_digest(report), told, SEED)
            arguments = (node, voted, 1, dealer, info.acc, hash_)
            sendings.append(Sending(node, Call("audits", "commitVerdicts", arguments)))
        self._ballots[voted] = ballots
        return sendings

    def _answers(self, batch: BatchInfo, dealer: bytes) -> tuple[int, ...]:
        """What each of them says of a batch. Raises SapoError for one whose policy is not what it declares: all are
        honest here."""
        spec, beacon = self._shared.deployment.spec, self._reader.beacon(batch.round)
        assert beacon is not None
        facts = BatchFacts.of(self._shared.deployment, batch, beacon)
        blocks = self._blocks.pop(batch.manifest, None)
        if blocks is None:
            peers = [self._reader.node_of(batch.node).endpoint]
            blocks = fetch_batch(self._store, spec, facts, peers, weights=True)
        spots = Spots.of(dealer, SEED, batch.index, facts.slots * spec.group_size, spec.spot)
        audit = Audit(facts, spec, blocks, self._shared.worker, self._bases.tokenizer, self._model, spots=spots)
        assert audit.recomputed is not None
        if (result := audit.recomputed.result).status != "pass":
            raise SapoError(f"batch {batch.index} of {batch.node} cannot be accepted: {result.status}: {result.reason}")
        return audit.recomputed.answers

    def _reveals(self, voted: int) -> list[Sending]:
        ballots = self._ballots.pop(voted, [])
        self._put([report for _, report, _ in ballots])
        return [
            Sending(node, Call("audits", "revealVerdicts", (node, voted, 1, word, block_digest(report), told, SEED)))
            for node, (word, report, told) in zip(self._nodes, ballots, strict=bool(ballots))
        ]

    def _put(self, blocks: Sequence[bytes]) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._store.put, blocks))

    def _send(self, sendings: Sequence[Sending]) -> None:
        """All in as few blocks as they fit in. Raises SapoError where one is refused."""
        requests = []
        for sending in sendings:
            target = self._reader.address_of(sending.call.contract)
            request = {"from": sending.sender, "to": target, "data": "0x" + sending.call.encode().hex()}
            # Anvil answers a batch's requests side by side, so it would give two of one account the same nonce.
            request |= {"gas": hex(GAS), "value": hex(sending.wei), "nonce": hex(self._nonces[sending.sender])}
            request["gasPrice"] = hex(PRICE)
            self._nonces[sending.sender] += 1
            requests.append(("eth_sendTransaction", [request]))
        hashes = self._ask(requests)
        for _ in range(MOST_BLOCKS):
            if not self._chain.has_pending():
                break
            self._chain.mine()
        receipts = self._ask([("eth_getTransactionReceipt", [hash_]) for hash_ in hashes])
        for sending, receipt in zip(sendings, receipts, strict=True):
            if receipt is None or int(receipt["status"], 16) != 1:
                why = "it is not mined" if receipt is None else "the contract refused it"
                raise SapoError(f"{sending.call.function} of {sending.sender}: {why}")
            self.gas += int(receipt["gasUsed"], 16)

    def _ask(self, requests: Sequence[tuple[str, list[Any]]]) -> list[Any]:
        """Many in few HTTP requests, none of them twice."""
        results = []
        for at in range(0, len(requests), CALLS):
            part = requests[at : at + CALLS]
            calls = [{"jsonrpc": "2.0", "id": i, "method": name, "params": p} for i, (name, p) in enumerate(part)]
            body = json.dumps(calls).encode()
            request = Request(self._chain.url, body, {"Content-Type": "application/json"})  # noqa: S310 - loopback
            with urlopen(request, timeout=SECONDS) as reply:  # noqa: S310
                answers = {answer["id"]: answer for answer in json.loads(reply.read())}
            for i, (name, _) in enumerate(part):
                if "error" in answers[i]:
                    raise SapoError(f"the chain refused {name}: {answers[i]['error'].get('message')}")
                results.append(answers[i]["result"])
        return results
