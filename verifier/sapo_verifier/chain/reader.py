"""What the contracts say. The chain is the only source: nothing here is remembered between calls but its identity."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eth_utils.address import to_checksum_address

from sapo_verifier import protocol
from sapo_verifier.chain import failover, rpc
from sapo_verifier.chain.anchor import Anchor
from sapo_verifier.chain.contracts import SOLIDITY_NAMES, Call, DecodingError
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import (
    ChainError,
    ChainMismatch,
    ChainUnavailable,
    Refused,
    explain_rpc_error,
    mask_url,
)
from sapo_verifier.chain.urls import RPC
from sapo_verifier.facts import BatchInfo

ZERO = bytes(32)
MAX_BATCHES = 1 << 16  # of a round that `batches_of` reads; each node has one at most


class NodeState(StrEnum):
    """In the order of the contract's enum."""

    NONE = "none"
    REGISTERED = "registered"
    EXITING = "exiting"
    WITHDRAWN = "withdrawn"
    SLASHED = "slashed"


@dataclass(frozen=True)
class NodeInfo:
    """A node as `Nodes` holds it."""

    node: str  # the owner address
    operator: str  # the key that may publish and vote for it
    registered_block: int
    exit_block: int  # the first block in which the bond can be withdrawn; 0 while no exit was asked for
    state: NodeState
    bond: int  # wei that are left
    endpoint: str  # a multiaddr, as the node wrote it: hostile until parsed
    active: bool  # may commit, submit and vote: registered, not exiting, full bond


@dataclass(frozen=True)
class RoundInfo:
    """A round as `Rounds` holds it. Its batches have the indices first … first + count − 1."""

    round: int
    first: int
    count: int
    acc: bytes  # the running hash over the batches; zeros while there is none
    beacon: bytes | None  # None: not captured (yet); for ever, once the round is over
    first_block: int


@dataclass(frozen=True)
class PolicyInfo:
    """What a node committed to before a round."""

    digest: bytes  # of the policy manifest
    slots: int  # groups that its batch will have


class ChainReader:
    """Reads one deployment through one RPC, or through the first of several that is well (failover.py). Not for several
    threads at once.

    Every method raises ChainUnavailable where the RPC does not answer, and ChainError, in words, where the chain or
    a contract refuses. Constructing one sends nothing. `timeout`: seconds for one answer; `tries`: how often a read is
    tried in all where the connection fails.
    """

    def __init__(
        self,
        rpc_url: str | Sequence[str],
        deployment: Deployment,
        *,
        timeout: float = rpc.TIMEOUT_SECONDS,
        tries: int = rpc.TRIES,
    ) -> None:
        self.deployment = deployment
        self._anchor = Anchor(deployment)
        urls = [rpc_url] if isinstance(rpc_url, str) else list(dict.fromkeys(rpc_url))
        if len(urls) == 1:
            self.w3 = rpc.connect(urls[0], retries=tries, timeout=timeout)
        else:
            self.w3 = failover.connect(urls, self._anchor, timeout)

    @property
    def rpc_url(self) -> str:
        """Of the RPC that is asked now, with its secrets."""
        return rpc.provider_of(self.w3).url

    @property
    def where(self) -> str:
        """The same for messages, without them."""
        return mask_url(self.rpc_url)

    # -- is this the chain that we mean? --

    def check(self) -> None:
        """Refuses any chain but the deployment's. Raises ChainMismatch, which names what differs and what to do."""
        with rpc.transport(self.rpc_url):
            chain_id = self.w3.eth.chain_id
        self._anchor.check_id(chain_id, self.where)
        self._check_code()
        self.check_not_reset()
        if differences := self._differences():
            raise ChainMismatch(
                f"the contracts at {self.where} follow other rules than the deployment file: {'; '.join(differences)}. "
                "The file was edited or is of another network; get it again from who deployed"
            )

    def check_not_reset(self) -> None:
        """Raises ChainReset if the chain is no longer the one on which the contracts were deployed. One request."""
        with rpc.transport(self.rpc_url):
            rpc.provider_of(self.w3).ask(self._anchor.check)

    def _check_code(self) -> None:
        addresses = {solidity: self.address_of(name) for name, solidity in SOLIDITY_NAMES.items()}
        codes = self._batch([("eth_getCode", [address, "latest"]) for address in addresses.values()])
        for (name, address), code in zip(addresses.items(), codes, strict=True):
            if code in ("0x", "", None):
                raise ChainMismatch(
                    f"the chain at {self.where} has no contract at {address} ({name}): was it reset? "
                    "Deploy again, or point --deployment at the right file"
                )

    def _differences(self) -> list[str]:
        """What the contracts hold and the deployment file says, wherever they differ, in words."""
        spec, contracts = self.deployment.spec, self.deployment.contracts
        calls = [Call("rounds", "parameters"), Call("rounds", "NODES"), Call("rounds", "BEACON")]
        calls += [Call("nodes", "BOND"), Call("nodes", "EXIT_BLOCKS"), Call("nodes", "AUDITS")]
        calls += [Call("beacon", "FIRST_BLOCK"), Call("beacon", "ROUND_BLOCKS")]
        parameters, nodes, beacon, bond, exit_blocks, audits, beacon_first, beacon_blocks = self.call_many(calls)
        calls = [Call("audits", name) for name in ("ROUNDS", "DISPUTES", "PROOFS")] + [Call("disputes", "terms")]
        calls += [Call("rewards", name) for name in ("AUDITS", "TOKEN", "parameters")]
        rounds, disputes, proofs, terms, paid_by, token, schedule = self.call_many(calls)
        expected = {
            "firstBlock": self.deployment.first_block,
            "roundBlocks": spec.chain.round_blocks,
            "groupSize": spec.group_size,
            "maxSlots": spec.max_slots,
            "maxNewTokens": spec.max_new_tokens,
            "draws": spec.chain.draws,
            "minAccepts": spec.chain.min_accepts,
            "minRejects": spec.chain.min_rejects,
            "spec": "0x" + self.deployment.spec_digest.hex(),
        }
        held = dict(zip(expected, (*parameters[:-1], "0x" + parameters[-1].hex()), strict=True))
        expected |= {"Rounds.NODES": contracts.nodes, "Rounds.BEACON": contracts.beacon}
        held |= {"Rounds.NODES": nodes, "Rounds.BEACON": beacon}
        expected |= {"Nodes.BOND": int(spec.chain.bond, 16), "Nodes.AUDITS": contracts.audits}
        held |= {"Nodes.BOND": bond, "Nodes.AUDITS": audits}
        expected["Nodes.EXIT_BLOCKS"] = spec.chain.exit_rounds * spec.chain.round_blocks
        held["Nodes.EXIT_BLOCKS"] = exit_blocks
        expected["beacon's FIRST_BLOCK"], held["beacon's FIRST_BLOCK"] = self.deployment.first_block, beacon_first
        expected["beacon's ROUND_BLOCKS"], held["beacon's ROUND_BLOCKS"] = spec.chain.round_blocks, beacon_blocks
        if (drand := self.deployment.drand) is not None:
            names = ("groupKey", "GENESIS", "PERIOD", "MARGIN")
            values = self.call_many([Call("drand", name) for name in names])
            for name, value, rule in zip(names, values, drand.constructor_arguments(), strict=True):
                expected[f"DrandBeacon.{name}"], held[f"DrandBeacon.{name}"] = _shown(rule), _shown(value)
        expected |= {"Audits.ROUNDS": contracts.rounds, "Rewards.AUDITS": contracts.audits}
        held |= {"Audits.ROUNDS": rounds, "Rewards.AUDITS": paid_by}
        expected |= {"Audits.DISPUTES": contracts.disputes, "Audits.PROOFS": contracts.proofs}
        held |= {"Audits.DISPUTES": disputes, "Audits.PROOFS": proofs}
        expected["Rewards.TOKEN"], held["Rewards.TOKEN"] = contracts.token, token
        amounts = ("dispute_bond", "missed_batch_fee", "missed_reveal_fee", "wrong_verdict_penalty", "withheld_fee")
        pay = ("supply", "initial_pool", "halving_rounds", "auditors_share", "max_per_unit", "max_per_verdict")
        for name, value in zip((*amounts, *pay), (*terms, *schedule), strict=True):
            rule = getattr(spec.chain, name)
            expected[name], held[name] = int(rule, 16) if isinstance(rule, str) else rule, value
        return [f"{name} is {held[name]}, not {expected[name]}" for name in expected if held[name] != expected[name]]

    # -- clock --

    def block_number(self) -> int:
        with rpc.transport(self.rpc_url):
            return int(self.w3.eth.block_number)

    def current_round(self) -> int:
        """The round of the latest block, as the contract counts it; −1 before round 0."""
        block = self.block_number()
        if block < self.deployment.first_block:
            return -1
        return int(self.call(Call("rounds", "currentRound")))

    def seconds_per_block(self, blocks: int) -> float | None:
        """As the last `blocks` blocks were dated, or those since the deployment; None where there is one only."""
        head = self.block_number()
        first = max(self.deployment.block, head - blocks)
        if head <= first:
            return None
        old, new = self._batch([("eth_getBlockByNumber", [hex(block), False]) for block in (first, head)])
        if old is None or new is None:
            return None
        return max(0.0, (int(new["timestamp"], 16) - int(old["timestamp"], 16)) / (head - first))

    def first_block_of(self, round_: int) -> int:
        return self.deployment.first_block + round_ * self.deployment.spec.chain.round_blocks

    def beacon(self, round_: int) -> bytes | None:
        """The round's randomness; None while it was not captured."""
        return _or_none(self.call(Call("rounds", "beacon", (round_,))))

    def drand_round(self, round_: int) -> int | None:
        """The drand round whose signature is the entropy of a round; None while nobody poked. Of a DrandBeacon only."""
        return int(self.call(Call("drand", "drandRound", (round_,)))) or None

    def block_time(self) -> int:
        """Of the latest block, in seconds since 1970, as the chain has it."""
        with rpc.transport(self.rpc_url):
            return int(self.w3.eth.get_block("latest")["timestamp"])

    # -- batches and policies --

    def round_at(self, round_: int) -> RoundInfo:
        return _round(round_, self.call(Call("rounds", "roundAt", (round_,))))

    def batch_count(self) -> int:
        return int(self.call(Call("rounds", "batchCount")))

    def batch_at(self, index: int) -> BatchInfo:
        """Raises ChainError where there is no such batch."""
        return _batch(index, self.call(Call("rounds", "batchAt", (index,))))

    def batches_at(self, indices: Sequence[int]) -> list[BatchInfo]:
        """In the order of `indices`; 50 batches cost one HTTP request."""
        answers = self.call_many([Call("rounds", "batchAt", (index,)) for index in indices])
        return [_batch(index, answer) for index, answer in zip(indices, answers, strict=True)]

    def batches_of(self, round_: int) -> list[BatchInfo]:
        """All batches of a round, in order, checked against the round's running hash.

        Raises ChainUnavailable where the RPC's answers contradict each other (a reorganization in between, or a
        provider whose machines disagree).
        """
        for _ in range(2):
            info = self.round_at(round_)
            if info.count > MAX_BATCHES:
                raise ChainError(
                    f"round {round_} has {info.count} batches, says {self.where}; more than {MAX_BATCHES} are not read "
                    "at once. Is this RPC honest?"
                )
            batches = self.batches_at(range(info.first, info.first + info.count))
            acc = ZERO
            for batch in batches:
                acc = protocol.fold_acc(acc, batch.node, batch.manifest, batch.root, batch.claim)
            if acc == info.acc and all(batch.round == round_ for batch in batches):
                return batches
        raise ChainUnavailable(
            f"{self.where} gives batches of round {round_} that do not fit the round's own hash; try again, "
            "and use another RPC if it stays so"
        )

    def policy_of(self, node: str, round_: int) -> PolicyInfo | None:
        """What the node committed for that round; None if nothing."""
        digest, slots = self.call(Call("rounds", "policyOf", (node, round_)))
        return PolicyInfo(digest, slots) if slots else None

    def batch_of(self, node: str, round_: int) -> int | None:
        """The index of the node's batch of that round; None if it submitted none."""
        exists, index = self.call(Call("rounds", "batchOf", (node, round_)))
        return index if exists else None

    def window_start(self, voter: str, round_: int, stage: int) -> int:
        """As the contract deals it. Raises ChainError while the beacon that deals it is not captured."""
        return int(self.call(Call("rounds", "windowStart", (voter, round_, stage))))

    # -- nodes --

    def node_of(self, address: str) -> NodeInfo:
        return self.nodes_of([address])[0]

    def nodes_of(self, addresses: Sequence[str]) -> list[NodeInfo]:
        """In the order of `addresses`; 25 nodes cost one HTTP request."""
        calls = [Call("nodes", name, (address,)) for address in addresses for name in ("nodeOf", "isActive")]
        answers = self.call_many(calls)
        return [_node(address, answers[2 * i], answers[2 * i + 1]) for i, address in enumerate(addresses)]

    def balance(self, address: str) -> int:
        """Wei."""
        with rpc.transport(self.rpc_url):
            return int(self.w3.eth.get_balance(to_checksum_address(address)))

    # -- calls --

    def call(self, call: Call, *, sender: str | None = None, block: int | None = None) -> Any:
        """One read of a contract, as it is after that block (None: the latest one).

        Raises ChainError with the contract's reason in words, or because the RPC does not have that block's state.
        """
        request = {"to": self.address_of(call.contract), "data": "0x" + call.encode().hex()}
        if sender is not None:
            request["from"] = sender
        with rpc.transport(self.rpc_url):
            try:
                # Not by web3's own method, which takes longer than the chain does.
                answer = rpc.single(self.w3, "eth_call", [request, "latest" if block is None else hex(block)])
            except Refused as error:
                raise ChainError(f"{call.function}: {explain_rpc_error(error.error)}") from error
        return self._decode(call, _bytes(answer))

    def call_many(self, calls: Sequence[Call], *, block: int | None = None) -> list[Any]:
        """Several reads in few HTTP requests, in order; block: as for `call`."""
        at = "latest" if block is None else hex(block)
        requests = [
            ("eth_call", [{"to": self.address_of(call.contract), "data": "0x" + call.encode().hex()}, at])
            for call in calls
        ]
        answers = self._batch(requests)
        return [self._decode(call, _bytes(answer)) for call, answer in zip(calls, answers, strict=True)]

    def address_of(self, contract: str) -> str:
        """The address of a contract, named as in the deployment file; lower case."""
        return str(getattr(self.deployment.contracts, "beacon" if contract == "drand" else contract))

    def close(self) -> None:
        """Closes the connection."""
        rpc.close(self.w3)

    def _decode(self, call: Call, answer: bytes) -> Any:
        try:
            return call.decode(answer)
        except DecodingError:
            raise ChainMismatch(
                f"the chain at {self.where} has no contract at {self.address_of(call.contract)} that answers "
                f"{call.function}: was it reset? Deploy again, or point --deployment at the right file"
            ) from None

    def _batch(self, requests: Sequence[tuple[str, Any]]) -> list[Any]:
        with rpc.transport(self.rpc_url):
            return rpc.batch(self.w3, requests)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def _shown(value: Any) -> Any:
    return "0x" + value.hex() if isinstance(value, bytes) else value


def _or_none(word: bytes) -> bytes | None:
    return None if word == ZERO else word


def _round(round_: int, values: tuple[Any, ...]) -> RoundInfo:
    first, count, acc, beacon, first_block = values
    return RoundInfo(round_, first, count, acc, _or_none(beacon), first_block)


def _batch(index: int, values: tuple[Any, ...]) -> BatchInfo:
    return BatchInfo(index, *values)


def _node(address: str, values: tuple[Any, ...], active: bool) -> NodeInfo:
    operator, registered_block, exit_block, state, bond, endpoint = values
    if state >= len(NodeState):
        raise ChainMismatch(f"the contract gives node {address} a state {state}, which this version does not know")
    return NodeInfo(
        address.lower(), operator, registered_block, exit_block, list(NodeState)[state], bond, endpoint, active
    )


@contextmanager
def open_chain(
    deployment: Deployment,
    rpc_url: str | Sequence[str] = RPC,
    *,
    timeout: float = rpc.TIMEOUT_SECONDS,
    tries: int = rpc.TRIES,
) -> Iterator[ChainReader]:
    """The chain behind an RPC URL, or behind several, in order of preference.

    timeout, tries: as ChainReader's. Raises ChainMismatch where it is not the deployment's, ChainUnavailable.
    """
    reader = ChainReader(rpc_url, deployment, timeout=timeout, tries=tries)
    try:
        reader.check()
        yield reader
    finally:
        reader.close()
