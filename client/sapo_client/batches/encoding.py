"""A batch put together from its tasks and records: texts, rewards, blocks, root and claim."""

from collections.abc import Callable, Sequence

from sapo_verifier import protocol
from sapo_verifier.audit import Dealt
from sapo_verifier.checks import batch_root
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.objects import BatchManifest, GroupBlock, Record, encode_records
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import Task, TaskError, TaskWorker, rewards


def encode_batch(
    spec: Spec,
    facts: BatchFacts,
    dealt: Dealt,
    records: Sequence[list[Record]],
    text: Callable[[Sequence[int]], str],
    worker: TaskWorker,
) -> tuple[BatchFacts, dict[bytes, bytes]]:
    """What goes on chain, and the blocks by their digests.

    facts: as dealt; records: of all completions, slot after slot; text: of a completion's tokens. Raises TaskError if a
    completion cannot be scored on this machine.
    """
    size = spec.group_size
    blocks: dict[bytes, bytes] = {}
    groups: list[bytes] = []
    bits: list[bool] = []
    for slot, (task, prompt) in enumerate(zip(dealt.tasks, dealt.prompts, strict=True)):
        mine = records[slot * size : (slot + 1) * size]
        texts = [text([record.token for record in completion]) for completion in mine]
        bits += _scores(spec, task, texts, worker)
        groups.append(_put(blocks, _group(slot, task, prompt, texts, _put(blocks, encode_records(mine)))))
    manifest = BatchManifest(
        chain=facts.chain_id,
        contract=facts.rounds,
        round=facts.round,
        node=facts.node,
        policy=facts.policy,
        groups=groups,
    )
    root = batch_root([b"".join(record.encode() for record in completion) for completion in records])
    return facts.made(_put(blocks, manifest.encode()), root, protocol.claim_word(bits)), blocks


def _scores(spec: Spec, task: Task, texts: list[str], worker: TaskWorker) -> list[bool]:
    scores = rewards(spec, task, texts, worker)
    if None in scores:
        raise TaskError(f"the scorer of {task.dataset} (seed {task.seed}) gave no result; is this machine overloaded?")
    return [bool(score) for score in scores]


def _group(slot: int, task: Task, prompt: str, texts: list[str], records: bytes) -> bytes:
    return GroupBlock(
        slot=slot,
        attempt=task.attempt,
        dataset=task.dataset,
        seed=task.seed,
        prompt=prompt,
        completions=texts,
        records=records,
    ).encode()


def _put(blocks: dict[bytes, bytes], data: bytes) -> bytes:
    digest = block_digest(data)
    blocks[digest] = data
    return digest
