"""What the sweep of tolerances recomputes: policies of several sharpnesses, and honest records of theirs in parts.

A part is one batch as a node makes it: tasks as a beacon deals them, completions that the streams force, records from
one float32 pass. Sharpness: a policy whose logits are so many times its base's, or one with a trained adapter.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapo_client.generation.records import make_records
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.pocket import VOCAB
from sapo_client.policy.lora import LoraOptions
from sapo_client.policy.policy import Policy, PolicyOptions
from sapo_verifier import protocol
from sapo_verifier.audit import Dealt
from sapo_verifier.errors import UsageError
from sapo_verifier.facts import BatchFacts
from sapo_verifier.files import write_file
from sapo_verifier.model.claims import Claimed
from sapo_verifier.model.forward import Passage
from sapo_verifier.networks import measure, models_spec, pocket_spec, smollm2_base
from sapo_verifier.objects import Record
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker

NOBODY = "0x" + "00" * 20
ADAPTER = "adapter"  # the sharpness of a policy whose adapter was trained
ADAPTER_FILE, RANK, STEPS, LEARNING_RATE = "adapter.safetensors", 16, 8, 2e-3


@dataclass(frozen=True)
class Part:
    """One batch's completions. us: what the streams say, one number for each record."""

    passages: list[Passage]
    us: list[list[int]]
    records: list[list[Record]]

    @property
    def positions(self) -> int:
        return sum(map(len, self.records))

    def claims(self) -> list[Claimed]:
        """As `compare` takes them: every completion in a slot of its own."""
        return [Claimed(i, 0, r, p) for i, (r, p) in enumerate(zip(self.records, self.passages, strict=True))]

    def write(self, file: Path) -> None:
        rows = [
            {"prompt": list(passage.prompt), "us": us, "records": [[r.token, r.lo, r.last] for r in records]}
            for passage, us, records in zip(self.passages, self.us, self.records, strict=True)
        ]
        write_file(file, json.dumps(rows).encode())

    @classmethod
    def read(cls, file: Path) -> "Part":
        rows = json.loads(file.read_bytes())
        records = [[Record(*each) for each in row["records"]] for row in rows]
        passages = [Passage(row["prompt"], [r.token for r in each]) for row, each in zip(rows, records, strict=True)]
        return cls(passages, [row["us"] for row in rows], records)


def rules(folder: Path) -> Spec:
    """The pocket's rules for a model with its vocabulary, else those for models that follow an instruction."""
    if measure(folder).vocab == VOCAB:
        return pocket_spec(folder)
    return models_spec([smollm2_base(folder, "tag")])


def load(folder: Path, sharpness: str, kept: Path, *, device: str = "cpu") -> Policy:
    """The policy of a sharpness. kept: the folder in which its adapter lies, if it has one."""
    if sharpness == ADAPTER:
        policy = Policy.load(folder, device=device, options=PolicyOptions(lora=LoraOptions(RANK)))
        if (file := kept / ADAPTER_FILE).exists():
            policy.load_weights(file.read_bytes())
        return policy
    policy = Policy.load(folder, device=device)
    sharpen(policy.model, float(sharpness))
    return policy


def sharpen(model: Any, factor: float) -> None:
    """Logits times a factor. The last norm takes it, since an output layer may be the embedding, too; by a power of two
    nothing is rounded, so it is the output layer times the factor to the bit. Raises UsageError where there is none."""
    norm = getattr(model.get_decoder(), "norm", None)
    if norm is None or norm.weight is None:
        raise UsageError(f"{type(model).__name__} has no norm before its output layer; take a Llama- or Qwen-style one")
    norm.weight.data.mul_(factor)


def make_part(policy: Policy, spec: Spec, number: int, slots: int, worker: TaskWorker) -> Part:
    """The honest batch of a number, by the engine and the records of a node."""
    beacon = protocol.beacon(1, NOBODY, number, bytes(32))
    facts = BatchFacts.dealt(1, NOBODY, number, NOBODY, beacon, protocol.ZERO, slots)
    rule = spec.bases[0]
    dealt = Dealt.to(facts, spec, rule, worker)
    prompts = [p for text in dealt.prompts for p in [policy.tokenizer.prompt(text, rule.template)] * spec.group_size]
    keys = facts.stream_keys(spec.group_size)
    engine = TorchEngine(policy, spec.max_new_tokens)
    records, _ = make_records(
        engine, policy.model, prompts, keys, vocab=policy.base.vocab, max_new_tokens=spec.max_new_tokens
    )
    passages = [Passage(prompt, [r.token for r in each]) for prompt, each in zip(prompts, records, strict=True)]
    us = [protocol.stream_values(key, len(each)) for key, each in zip(keys, records, strict=True)]
    return Part(passages, us, records)


def train_adapter(policy: Policy, part: Part, kept: Path) -> None:
    """A few steps towards what the policy sampled itself: cheap, and sharper than its base. Writes ADAPTER_FILE."""
    import torch

    optimizer = torch.optim.Adam(policy.parameters(), lr=LEARNING_RATE)
    few = [Passage(passage.prompt, passage.completion[:64]) for passage in part.passages[:8]]
    for _ in range(STEPS):
        optimizer.zero_grad()
        (-policy.log_probs(few).mean()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    write_file(kept / ADAPTER_FILE, policy.weight_bytes())
    policy.load_weights(policy.weight_bytes())
