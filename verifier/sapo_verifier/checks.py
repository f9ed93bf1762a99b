"""The verifier's checks: small, named, in order, pure functions of bytes and chain facts (docs/protocol.md, Checks).

Each takes an Audit and returns its CheckResult. What a peer published is hostile: whatever its bytes are, a check
answers pass, fail, void or unknown, and nothing raises out of `check_batch`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum

from sapo_verifier import protocol
from sapo_verifier.audit import Audit, CheckResult, SlotError, Status
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import ObjectError, SapoError
from sapo_verifier.ipfs import BlockTooLarge, StoreFailed
from sapo_verifier.objects import Record, hex_digest
from sapo_verifier.tasks import TaskError, rewards

Check = Callable[[Audit], CheckResult]


class Verdict(IntEnum):
    """Of a voter on a batch; two bits of the word that is revealed."""

    ABSTAIN = 0
    ACCEPT = 1
    REJECT = 2
    VOID = 3


MAX_PRINTED = 1000  # characters of a peer's words in a result


def available(audit: Audit) -> CheckResult:
    """Every block that the batch names was to be had. Void if not: what one can fetch differs.

    Unknown if this machine's own store is the trouble, which says nothing about the batch.
    """
    found = {digest: audit.blocks.get(digest) for digest in audit.wanted}
    for digest, block in found.items():
        if isinstance(block, StoreFailed):
            return CheckResult("available", "unknown", f"block {hex_digest(digest)}: {block}")
    for digest, block in found.items():
        if not isinstance(block, bytes | BlockTooLarge):
            return CheckResult("available", "void", f"block {hex_digest(digest)}: {block or 'never fetched'}")
    return CheckResult("available", "pass", f"{len(found)} blocks")


def size(audit: Audit) -> CheckResult:
    """No block is larger than its kind may be."""
    total = 0
    for digest, limit in audit.wanted.items():
        block = audit.blocks[digest]
        if not isinstance(block, bytes):
            return CheckResult("size", "void", f"block {hex_digest(digest)}: {block}")
        if len(block) > limit:
            return CheckResult("size", "void", f"block {hex_digest(digest)} has {len(block)} bytes, more than {limit}")
        total += len(block)
    return CheckResult("size", "pass", f"{total} bytes")


def digest(audit: Audit) -> CheckResult:
    """Every block's bytes have the digest that names it. Void: the bytes say nothing about who produced them."""
    for name in audit.wanted:
        if block_digest(audit.bytes_of(name)) != name:
            return CheckResult("digest", "void", f"the bytes given for {hex_digest(name)} have another digest")
    return CheckResult("digest", "pass")


def schema(audit: Audit) -> CheckResult:
    """The documents are canonical and well-formed, and their counts are the chain's and the spec's."""
    try:
        _ = audit.policy, audit.manifest, audit.groups, audit.records
    except SlotError as error:
        return CheckResult("schema", "fail", str(error), error.slot)
    except ObjectError as error:
        return CheckResult("schema", "fail", str(error))
    return CheckResult("schema", "pass", f"{audit.facts.slots} groups of {audit.spec.group_size} completions")


def binding(audit: Audit) -> CheckResult:
    """The batch is this chain's, this contract's, this round's and this node's, and its policy one of the spec's."""
    facts, manifest, policy = audit.facts, audit.manifest, audit.policy
    pairs = {
        "chain": (manifest.chain, facts.chain_id),
        "contract": (manifest.contract, facts.rounds),
        "round": (manifest.round, facts.round),
        "node": (manifest.node, facts.node),
        "policy": (hex_digest(manifest.policy), hex_digest(facts.policy)),
    }
    for name, (said, true) in pairs.items():
        if said != true:
            return CheckResult("binding", "fail", f"the manifest's {name} is {said}, the chain's is {true}")
    base = audit.spec.base(policy.base)
    if base is None:
        return CheckResult("binding", "fail", f"the policy's base {policy.base[:200]!r} is not in the spec")
    if policy.size > base.max_adapter_bytes:
        return CheckResult(
            "binding", "fail", f"the policy takes {policy.size} bytes, more than {base.max_adapter_bytes}"
        )
    if policy.lora is not None and policy.lora.rank > base.max_rank:
        return CheckResult("binding", "fail", f"the adapter's rank is {policy.lora.rank}, more than {base.max_rank}")
    return CheckResult("binding", "pass", f"round {facts.round}, node {facts.node}, base {policy.base}")


def task(audit: Audit) -> CheckResult:
    """Every group answers the task that was dealt: dataset, seed, attempt and the prompt as rendered for the base."""
    try:
        dealt = audit.dealt
    except TaskError as error:
        return CheckResult("task", "unknown", f"the tasks could not be generated here: {error}")
    for slot, (task_, prompt) in enumerate(zip(dealt.tasks, dealt.prompts, strict=True)):
        group = audit.groups[slot]
        said = (group.dataset, group.seed, group.attempt, group.prompt)
        true = (task_.dataset, task_.seed, task_.attempt, prompt)
        for name, a, b in zip(("dataset", "seed", "attempt", "prompt"), said, true, strict=True):
            if a != b:
                return CheckResult(
                    "task", "fail", f"the {name} is {str(a)[:200]!r}, but {str(b)[:200]!r} was dealt", slot=slot
                )
    return CheckResult("task", "pass", f"{audit.facts.slots} tasks as dealt")


def text(audit: Audit) -> CheckResult:
    """The texts are what the tokens decode to, without a final end-of-sequence."""
    for slot, k, records in completions(audit):
        for t, record in enumerate(records):
            if record.token >= audit.base.vocab:
                reason = f"token {record.token} is not below vocab {audit.base.vocab}"
                return CheckResult("text", "fail", reason, slot, k, t)
    try:
        tokenizer = audit.tokenizer(audit.base)
    except SapoError as error:  # also a folder that holds the base but no tokenizer
        return CheckResult("text", "unknown", str(error))
    for slot, k, records in completions(audit):
        tokens = [record.token for record in records]
        if tokens[-1] in audit.base.eos:
            tokens.pop()
        said, true = audit.groups[slot].completions[k], tokenizer.decode(tokens)
        if said != true:
            return CheckResult("text", "fail", f"the text is {said[:200]!r}, its tokens say {true[:200]!r}", slot, k)
    return CheckResult("text", "pass")


def ending(audit: Audit) -> CheckResult:
    """A completion ends with its first end-of-sequence, or at the spec's limit, and nowhere else."""
    limit, eos = audit.spec.max_new_tokens, audit.base.eos
    for slot, k, records in completions(audit):
        ends = [t for t, record in enumerate(records) if record.token in eos]
        if ends and ends[0] != len(records) - 1:
            return CheckResult("ending", "fail", "tokens follow the end of sequence", slot, k, ends[0])
        if not ends and len(records) != limit:
            reason = f"stops after {len(records)} tokens without an end of sequence; the limit is {limit}"
            return CheckResult("ending", "fail", reason, slot, k, len(records) - 1)
    return CheckResult("ending", "pass")


def reward(audit: Audit) -> CheckResult:
    """The claim's bits are the rewards that the texts earn, and no bit lies beyond the last completion."""
    size, claim = audit.spec.group_size, audit.facts.claim
    if claim >> (audit.facts.slots * size):
        return CheckResult("reward", "fail", "the claim has bits beyond its last completion")
    for slot in range(audit.facts.slots):
        try:
            true = rewards(audit.spec, audit.tasks[slot], audit.groups[slot].completions, audit.worker)
        except TaskError as error:
            return CheckResult("reward", "unknown", f"the scorer failed here: {error}", slot=slot)
        for k, bit in enumerate(true):
            claimed = bool((claim >> (slot * size + k)) & 1)
            if bit is not None and claimed != bit:
                reason = f"reward {int(claimed)} is claimed, {int(bit)} is earned"
                evidence = {"text": audit.groups[slot].completions[k][:200], "answer": audit.tasks[slot].answer[:200]}
                return CheckResult("reward", "fail", reason, slot, k, None, evidence)
        if None in true:  # after the slot's false claims: one answer that stops the scorer must not hide them
            return CheckResult("reward", "unknown", "the scorer did not answer in time", slot, true.index(None))
    return CheckResult("reward", "pass", f"{claim.bit_count()} of {audit.facts.slots * size} completions are right")


def tree(audit: Audit) -> CheckResult:
    """The root on chain is the root over the records that were published."""
    root = batch_root([packed for slot in range(audit.facts.slots) for packed in audit.records[slot]])
    if root != audit.facts.root:
        return CheckResult(
            "tree", "fail", f"the records have root {hex_digest(root)}, the chain {hex_digest(audit.facts.root)}"
        )
    return CheckResult("tree", "pass")


def sampling(audit: Audit) -> CheckResult:
    """Every claimed interval holds the number that forces its token."""
    positions = 0
    for slot, k, records in completions(audit):
        key = protocol.stream_key(audit.facts.beacon, audit.facts.policy, audit.facts.node, slot, k)
        for t, (record, u) in enumerate(zip(records, protocol.stream_values(key, len(records)), strict=True)):
            if not record.lo <= u <= record.last:
                evidence = {"token": str(record.token), "lo": hex(record.lo), "u": hex(u), "last": hex(record.last)}
                return CheckResult("sampling", "fail", "the interval does not hold its u", slot, k, t, evidence)
        positions += len(records)
    return CheckResult("sampling", "pass", f"{positions} positions")


def policy(audit: Audit) -> CheckResult:
    """The intervals are the declared policy's. Needs the model: see model/policy_check.py."""
    if audit.recomputed is None:
        return CheckResult("policy", "unknown", "the policy's own probabilities were not recomputed here")
    return audit.recomputed.result


CHECKS: tuple[Check, ...] = (
    available, size, digest, schema, binding, task, text, ending, reward, tree, sampling, policy,
)  # fmt: skip


def check_batch(audit: Audit, before_policy: Callable[[], None] | None = None) -> list[CheckResult]:
    """The results in order. A fail or a void ends the list, as later checks stand on earlier ones; so does a block
    that this machine could not fetch.

    before_policy: called where all others are through, before the check that needs the weights.
    """
    results = []
    for check in CHECKS:
        if check is policy and before_policy is not None:
            before_policy()
        results.append(_printable(check(audit)))
        if results[-1].status in ("fail", "void") or (check is available and results[-1].status == "unknown"):
            break
    return results


def check_answers(audit: Audit, answers: Sequence[int]) -> CheckResult:
    """The check `answers`: what a voter whose spots are the audit's answered about the batch, in the draw's order.

    Void where a check before `policy` does not pass: a question needs whole blocks, and tokens that the base has.
    """
    if audit.model is None:
        return CheckResult("answers", "unknown", "no policy is run here")
    for check in CHECKS[:-1]:
        found = check(audit)
        if found.status in ("fail", "void") or (check is available and found.status == "unknown"):
            status: Status = "unknown" if found.status == "unknown" else "void"
            return _printable(CheckResult("answers", status, f"{found.check} {found.status}: {found.reason}"))
    return _printable(audit.model.judge(audit, answers))


def verdict(results: Sequence[CheckResult]) -> Verdict:
    """What a voter says: accept only if every check passed, reject a failed one, void what nobody can judge."""
    statuses = {result.status for result in results}
    if "fail" in statuses:
        return Verdict.REJECT
    if "void" in statuses:
        return Verdict.VOID
    return Verdict.ABSTAIN if "unknown" in statuses or not statuses else Verdict.ACCEPT


def _printable(result: CheckResult) -> CheckResult:
    """A peer's words go to terminals and logs: no control characters, no lone surrogates, not a mebibyte of them."""
    evidence = {name: plain(value) for name, value in result.evidence.items()}
    return replace(result, reason=plain(result.reason), evidence=evidence)


def plain(text: str) -> str:
    """A peer's words as one line of a terminal: cut, and what does not print is escaped."""
    shown = text if len(text) <= MAX_PRINTED else text[:MAX_PRINTED] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def batch_root(completions: list[bytes]) -> bytes:
    """The tree root over a batch: each completion's packed records, in the order slot · G + k."""
    return protocol.merkle_root(protocol.batch_leaves(completions))


def completions(audit: Audit) -> Iterator[tuple[int, int, list[Record]]]:
    """Every completion as (slot, k, records)."""
    for slot in range(audit.facts.slots):
        for k, records in enumerate(audit.completions[slot]):
            yield slot, k, records
