"""An honest batch made without torch, and every way to bend it.

The policy is a formula (sapo_devnet/formula/policy.py). Sampling is forced as the protocol forces it, tasks and rewards
come from the real worker. A test changes any part of a Draft; `seal` writes, hashes and claims everything above the
change again, so that it gets past the digests.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sapo_devnet.formula.policy import EOS, VOCAB, liked_for, sample, text_of
from sapo_devnet.testkit.rules import MONEY
from sapo_verifier import protocol
from sapo_verifier.audit import Audit, CheckResult, Found
from sapo_verifier.bases import Tokenizer
from sapo_verifier.checks import CHECKS, batch_root, check_batch
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.networks import versions_of
from sapo_verifier.objects import NO_AUDIT, Record, encode_records, hex_digest
from sapo_verifier.protocol import VERSION
from sapo_verifier.spec import BaseRule, Spec, TaskRule
from sapo_verifier.tasks import TaskWorker, deal, render, rewards

GROUP, SLOTS, LIMIT = 4, 3, 12  # completions of a group, groups, tokens of a completion
NODE, OTHER_NODE, ROUNDS = "0x" + "ab" * 20, "0x" + "cd" * 20, "0x" + "12" * 20
ROUND, INDEX, CHAIN = 7, 5, 31337

# One rule for every compact prompt, with answers short enough for the limit.
_SUM = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2, "operators": ["+", "-", "*"],
        "allow_parentheses": False, "allow_negation": False}  # fmt: skip
_SORTED = {"min_numbers": 3, "max_numbers": 3, "min_decimals": 0, "max_decimals": 0, "min_value": 0, "max_value": 99}
_CONFIGS: dict[str, dict[str, Any]] = {
    "basic_arithmetic": _SUM,
    "base_conversion": {"min_base": 2, "max_base": 5, "min_value": 1, "max_value": 63},
    "decimal_arithmetic": {"min_num_decimal_places": 1, "max_num_decimal_places": 1, "max_terms": 2, "precision": 4},
    "fraction_simplification": {"max_value": 12, "min_factor": 2, "max_factor": 6, "styles": ["plain"]},
    "binary_matrix": {"min_n": 2, "max_n": 3, "p_zero": {"decimal": "0.35"}},
    "count_bits": {"min_n": 1, "max_n": 255},
    "spell_backward": {"min_word_len": 3, "max_word_len": 5},
    "gcd": {"max_value": 60},
    "number_sorting": _SORTED,
}
TASKS = [{"name": name, "config": config, "weight": 1} for name, config in _CONFIGS.items()]
ENTROPY = (8360).to_bytes(32, "big")  # tried until the batch had every kind of completion: tests/places.py
BEACON = protocol.beacon(CHAIN, ROUNDS, ROUND, ENTROPY)


VERSIONS = versions_of([TaskRule.model_validate(rule) for rule in TASKS]).model_dump(mode="json")


def small_spec(**changes: Any) -> Spec:
    base = {
        "id": "tiny", "digest": "0x" + "11" * 32, "vocab": VOCAB, "eos": [EOS], "context": 64, "template": "compact",
        "max_token_bytes": 6, "max_adapter_bytes": 2 << 20, "max_rank": 4,
    }  # fmt: skip
    words = base | {"id": "words", "vocab": 300, "eos": [257], "context": 4096, "template": "{question}\n{instruction}"}
    chain = {"round_blocks": 8, "draws": 4, "min_accepts": 2, "min_rejects": 2, "exit_rounds": 9} | MONEY
    document: dict[str, Any] = {
        "v": VERSION, "chain": chain, "group_size": GROUP, "max_slots": 8, "max_new_tokens": LIMIT,
        "max_prompt_bytes": 1024, "pool_rounds": 2, "spot": 256, "tasks": TASKS, "answer": "brackets",
        "versions": VERSIONS, "bases": [base, words],
    }  # fmt: skip
    return Spec.model_validate(document | changes)


SPEC = small_spec()
POLICY = {"v": VERSION, "audit": hex_digest(NO_AUDIT), "base": "tiny", "kind": "base", "size": 0, "blocks": []}


def loose_json(document: Any) -> bytes:
    """Canonical for what may be written, and something for what may not."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


@dataclass
class Slot:
    """A group before it is encoded. raw_group and raw_records stand in for the bytes made of the rest."""

    document: dict[str, Any]  # without `records`, which seal adds
    records: list[list[Record]]
    prompt: str
    liked: list[int]  # the right answer, as the policy would write it
    raw_group: bytes | None = None
    raw_records: bytes | None = None

    def tokens(self, k: int) -> list[int]:
        return [record.token for record in self.records[k]]

    def rewrite(self, k: int, records: list[Record]) -> None:
        """Another completion k, and the text that goes with it."""
        self.records[k] = records
        self.document["completions"][k] = text_of(self.tokens(k))


@dataclass
class Sealed:
    """What the chain says about the draft, and the blocks by digest. names: `manifest`, `policy`, `group 0`, …"""

    facts: BatchFacts
    spec: Spec
    blocks: dict[bytes, Found]
    names: dict[str, bytes]

    def audit(self, worker: TaskWorker, tokenizer: Callable[[BaseRule], Tokenizer]) -> Audit:
        return Audit(self.facts, self.spec, self.blocks, worker, tokenizer)


@dataclass
class Draft:
    """A batch before it is encoded. manifest: fields to write otherwise; `...` leaves one out."""

    facts: BatchFacts
    slots: list[Slot]
    spec: Spec
    policy: dict[str, Any]
    manifest: dict[str, Any] = field(default_factory=dict)
    raw_policy: bytes | None = None
    raw_manifest: bytes | None = None
    root: bytes | None = None  # instead of that of the records

    def claim(self, slot: int, k: int, bit: bool) -> None:
        mask = 1 << (slot * GROUP + k)
        self.facts = replace(self.facts, claim=self.facts.claim & ~mask | (mask if bit else 0))

    def claimed(self, slot: int, k: int) -> bool:
        return bool(self.facts.claim >> (slot * GROUP + k) & 1)

    def rescore(self, worker: TaskWorker) -> None:
        """Claim exactly what the texts earn."""
        for slot, each in enumerate(self.slots):
            task = deal(self.spec, self.facts.beacon, self.facts.node, slot, worker)
            for k, bit in enumerate(rewards(self.spec, task, each.document["completions"], worker)):
                assert bit is not None
                self.claim(slot, k, bit)

    def seal(self) -> Sealed:
        blocks: dict[bytes, Found] = {}
        names: dict[str, bytes] = {}

        def put(name: str, data: bytes) -> str:
            names[name] = block_digest(data)
            blocks[names[name]] = data
            return hex_digest(names[name])

        groups = []
        for i, slot in enumerate(self.slots):
            raw = encode_records(slot.records) if slot.raw_records is None else slot.raw_records
            document = {"records": put(f"records {i}", raw)} | slot.document
            groups.append(put(f"group {i}", loose_json(document) if slot.raw_group is None else slot.raw_group))
        policy = put("policy", loose_json(self.policy) if self.raw_policy is None else self.raw_policy)
        honest = {
            "v": VERSION, "chain": self.facts.chain_id, "contract": self.facts.rounds, "round": self.facts.round,
            "node": self.facts.node, "policy": policy, "groups": groups,
        }  # fmt: skip
        document = {name: value for name, value in (honest | self.manifest).items() if value is not ...}
        put("manifest", loose_json(document) if self.raw_manifest is None else self.raw_manifest)
        root = batch_root([b"".join(r.encode() for r in records) for slot in self.slots for records in slot.records])
        facts = replace(
            self.facts, policy=names["policy"], manifest=names["manifest"], root=self.root or root
        )  # the claim is the draft's own
        return Sealed(facts, self.spec, blocks, names)


_MADE: dict[tuple[Any, ...], Draft] = {}


def honest(
    worker: TaskWorker,
    *,
    node: str = NODE,
    round_: int = ROUND,
    beacon: bytes = BEACON,
    spec: Spec = SPEC,
    policy: dict[str, Any] = POLICY,
) -> Draft:
    """A copy of the batch that an honest node makes of these; made once."""
    name = (node, round_, beacon, spec.digest(), loose_json(policy))
    if name not in _MADE:
        _MADE[name] = _make(worker, node, round_, beacon, spec, policy)
    return copy.deepcopy(_MADE[name])


def _make(worker: TaskWorker, node: str, round_: int, beacon: bytes, spec: Spec, manifest: dict[str, Any]) -> Draft:
    policy = block_digest(loose_json(manifest))
    facts = replace(BatchFacts.dealt(CHAIN, ROUNDS, round_, node, beacon, policy, SLOTS), index=INDEX)
    slots = []
    for slot in range(SLOTS):
        task = deal(spec, beacon, node, slot, worker)
        prompt = render(task, "compact", spec.answer)
        liked = liked_for(task)
        keys = [protocol.stream_key(beacon, policy, node, slot, k) for k in range(GROUP)]
        records = [sample(prompt, liked, key, LIMIT) for key in keys]
        document = {
            "v": VERSION, "slot": slot, "attempt": task.attempt, "dataset": task.dataset, "seed": task.seed,
            "prompt": prompt, "completions": [text_of([record.token for record in each]) for each in records],
        }  # fmt: skip
        slots.append(Slot(document, records, prompt, liked))
    draft = Draft(facts, slots, spec, copy.deepcopy(manifest))
    draft.rescore(worker)
    return draft


def assert_stopped(
    audit: Audit, check: str, status: str = "fail", *, slot: Any = None, k: Any = None, t: Any = None, words: str = ""
) -> CheckResult:
    """Exactly `check` ends the list, with this status and place; every check before it passes."""
    results = check_batch(audit)
    last = results[-1]
    assert [result.check for result in results if result.status != "pass"] == [check], results
    assert (last.check, last.status, last.slot, last.k, last.t) == (check, status, slot, k, t), last
    assert words in last.reason, last.reason
    return last


def assert_only(audit: Audit, check: str, **place: Any) -> CheckResult:
    """As assert_stopped, and without this one check the batch would have been paid."""
    stopped = assert_stopped(audit, check, **place)
    others = [each(audit) for each in CHECKS if each.__name__ not in (check, "policy")]
    assert {result.status for result in others} == {"pass"}, others
    return stopped
