"""The verifier's checks: small, named, in order, pure functions of bytes and chain facts (docs/protocol.md, Checks).

Each takes an Audit and returns its Outcome. What a peer published is hostile: whatever its bytes are, a check answers
pass, fail, void or unknown, and nothing raises out of `check_batch`.
"""

from collections.abc import Callable, Iterator

from sapo_verifier import protocol
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import ObjectError, SapoError
from sapo_verifier.evidence import Audit, Outcome
from sapo_verifier.ipfs import BlockTooLarge
from sapo_verifier.objects import Record, hex_digest, unpack_records
from sapo_verifier.tasks import TaskError, render, rewards

Check = Callable[[Audit], Outcome]


def available(audit: Audit) -> Outcome:
    """Every block that the batch names was to be had. Void if not: what one can fetch differs."""
    for digest, found in audit.blocks.items():
        if not isinstance(found, bytes) and not isinstance(found, BlockTooLarge):
            return Outcome("available", "void", f"block {hex_digest(digest)}: {found}")
    return Outcome("available", "pass", f"{len(audit.blocks)} blocks")


def size(audit: Audit) -> Outcome:
    """No block is larger than its kind may be."""
    for digest, found in audit.blocks.items():
        if not isinstance(found, bytes):
            return Outcome("size", "void", f"block {hex_digest(digest)}: {found}")
    total = sum(len(found) for found in audit.blocks.values() if isinstance(found, bytes))
    return Outcome("size", "pass", f"{total} bytes")


def digest(audit: Audit) -> Outcome:
    """Every block's bytes have the digest that names it. Void: the bytes say nothing about who produced them."""
    for name, found in audit.blocks.items():
        if isinstance(found, bytes) and block_digest(found) != name:
            return Outcome("digest", "void", f"the bytes given for {hex_digest(name)} have another digest")
    return Outcome("digest", "pass")


def schema(audit: Audit) -> Outcome:
    """The documents are canonical and well-formed, and their counts are the chain's and the spec's."""
    facts, size = audit.facts, audit.spec.group_size
    try:
        manifest, _ = audit.manifest, audit.policy
        if len(manifest.groups) != facts.slots:
            return Outcome("schema", "fail", f"the manifest has {len(manifest.groups)} groups, not {facts.slots}")
        if len(set(manifest.groups)) != len(manifest.groups):
            return Outcome("schema", "fail", "the manifest lists a group twice")
        for slot, group in enumerate(audit.groups):
            if group.slot != slot:
                return Outcome("schema", "fail", f"the block says slot {group.slot}", slot)
            if len(group.completions) != size:
                return Outcome("schema", "fail", f"{len(group.completions)} completions, not {size}", slot)
        _ = audit.records
    except ObjectError as error:
        return Outcome("schema", "fail", str(error))
    return Outcome("schema", "pass", f"{facts.slots} groups of {size} completions")


def binding(audit: Audit) -> Outcome:
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
            return Outcome("binding", "fail", f"the manifest's {name} is {said}, the chain's is {true}")
    base = audit.spec.base(policy.base)
    if base is None:
        return Outcome("binding", "fail", f"the policy's base {policy.base!r} is not in the spec")
    if policy.size > base.max_adapter_bytes:
        return Outcome("binding", "fail", f"the policy takes {policy.size} bytes, more than {base.max_adapter_bytes}")
    if policy.lora is not None and policy.lora.rank > base.max_rank:
        return Outcome("binding", "fail", f"the adapter's rank is {policy.lora.rank}, more than {base.max_rank}")
    return Outcome("binding", "pass", f"round {facts.round}, node {facts.node}, base {policy.base}")


def task(audit: Audit) -> Outcome:
    """Every group answers the task that was dealt: dataset, seed, attempt and the prompt as rendered for the base."""
    template, style = audit.base.template, audit.spec.answer
    try:
        dealt_with_prompts = [(dealt, render(dealt, template, style)) for dealt in audit.tasks]
    except TaskError as error:
        return Outcome("task", "unknown", f"the tasks could not be generated here: {error}")
    for slot, (dealt, prompt) in enumerate(dealt_with_prompts):
        group = audit.groups[slot]
        said = (group.dataset, group.seed, group.attempt, group.prompt)
        true = (dealt.dataset, dealt.seed, dealt.attempt, prompt)
        for name, a, b in zip(("dataset", "seed", "attempt", "prompt"), said, true, strict=True):
            if a != b:
                return Outcome(
                    "task", "fail", f"the {name} is {str(a)[:200]!r}, but {str(b)[:200]!r} was dealt", slot=slot
                )
    return Outcome("task", "pass", f"{audit.facts.slots} tasks as dealt")


def text(audit: Audit) -> Outcome:
    """The texts are what the tokens decode to, without a final end-of-sequence."""
    try:
        tokenizer = audit.tokenizer(audit.base)
    except SapoError as error:  # also a folder that holds the base but no tokenizer
        return Outcome("text", "unknown", str(error))
    for slot, k, records in completions(audit):
        tokens = [record.token for record in records]
        for t, token in enumerate(tokens):
            if token >= audit.base.vocab:
                return Outcome("text", "fail", f"token {token} is not below vocab {audit.base.vocab}", slot, k, t)
        if tokens[-1] in audit.base.eos:
            tokens.pop()
        said, true = audit.groups[slot].completions[k], tokenizer.decode(tokens)
        if said != true:
            return Outcome("text", "fail", f"the text is {said[:200]!r}, its tokens say {true[:200]!r}", slot, k)
    return Outcome("text", "pass")


def ending(audit: Audit) -> Outcome:
    """A completion ends with its first end-of-sequence, or at the spec's limit, and nowhere else."""
    limit, eos = audit.spec.max_new_tokens, audit.base.eos
    for slot, k, records in completions(audit):
        ends = [t for t, record in enumerate(records) if record.token in eos]
        if ends and ends[0] != len(records) - 1:
            return Outcome("ending", "fail", "tokens follow the end of sequence", slot, k, ends[0])
        if not ends and len(records) != limit:
            reason = f"stops after {len(records)} tokens without an end of sequence; the limit is {limit}"
            return Outcome("ending", "fail", reason, slot, k, len(records) - 1)
    return Outcome("ending", "pass")


def reward(audit: Audit) -> Outcome:
    """The claim's bits are the rewards that the texts earn, and no bit lies beyond the last completion."""
    size, claim = audit.spec.group_size, audit.facts.claim
    if claim >> (audit.facts.slots * size):
        return Outcome("reward", "fail", "the claim has bits beyond its last completion")
    for slot in range(audit.facts.slots):
        try:
            true = rewards(audit.spec, audit.tasks[slot], audit.groups[slot].completions, audit.worker)
        except TaskError as error:
            return Outcome("reward", "unknown", f"the scorer failed here: {error}", slot=slot)
        for k, bit in enumerate(true):
            claimed = bool((claim >> (slot * size + k)) & 1)
            if bit is None:
                return Outcome("reward", "unknown", "the scorer did not answer in time", slot, k)
            if claimed != bit:
                reason = f"reward {int(claimed)} is claimed, {int(bit)} is earned"
                evidence = {"text": audit.groups[slot].completions[k][:200], "answer": audit.tasks[slot].answer[:200]}
                return Outcome("reward", "fail", reason, slot, k, None, evidence)
    return Outcome("reward", "pass", f"{claim.bit_count()} of {audit.facts.slots * size} completions are right")


def tree(audit: Audit) -> Outcome:
    """The root on chain is the root over the records that were published."""
    root = batch_root([packed for slot in range(audit.facts.slots) for packed in audit.records[slot]])
    if root != audit.facts.root:
        return Outcome(
            "tree", "fail", f"the records have root {hex_digest(root)}, the chain {hex_digest(audit.facts.root)}"
        )
    return Outcome("tree", "pass")


def sampling(audit: Audit) -> Outcome:
    """Every claimed interval holds the number that forces its token."""
    positions = 0
    for slot, k, records in completions(audit):
        key = protocol.stream_key(audit.facts.beacon, audit.facts.policy, audit.facts.node, slot, k)
        for t, (record, u) in enumerate(zip(records, protocol.stream_values(key, len(records)), strict=True)):
            if not record.lo <= u <= record.last:
                evidence = {"token": str(record.token), "lo": hex(record.lo), "u": hex(u), "last": hex(record.last)}
                return Outcome("sampling", "fail", "the interval does not hold its u", slot, k, t, evidence)
        positions += len(records)
    return Outcome("sampling", "pass", f"{positions} positions")


def policy(audit: Audit) -> Outcome:
    """The intervals are the declared policy's. Needs the model, which this auditor does not run."""
    return Outcome("policy", "unknown", "the policy's own probabilities were not recomputed here")


CHECKS: tuple[Check, ...] = (
    available, size, digest, schema, binding, task, text, ending, reward, tree, sampling, policy,
)  # fmt: skip


def check_batch(audit: Audit) -> list[Outcome]:
    """The outcomes in order; a fail or a void ends the list, as later checks stand on earlier ones."""
    outcomes = []
    for check in CHECKS:
        outcomes.append(check(audit))
        if outcomes[-1].status in ("fail", "void"):
            break
    return outcomes


def batch_root(completions: list[bytes]) -> bytes:
    """The tree root over a batch: each completion's packed records, in the order slot · G + k."""
    return protocol.merkle_root(
        [
            protocol.leaf(i, len(packed) // protocol.RECORD_BYTES, protocol.records_root(packed))
            for i, packed in enumerate(completions)
        ]
    )


def completions(audit: Audit) -> Iterator[tuple[int, int, list[Record]]]:
    """Every completion as (slot, k, records)."""
    for slot in range(audit.facts.slots):
        for k, packed in enumerate(audit.records[slot]):
            yield slot, k, unpack_records(packed)
