"""`scripts/bench --round`: what a round's stage-1 audit costs beside the node's own generation, by merge and passes.

K batches of adapters, s spots of each. Detection: how often one voter, and all K of a batch, find one false completion.
"""

from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save

from sapo_client.batches.publish import NO_CHAIN, make_batch
from sapo_client.bench.prompts import bench_spec
from sapo_client.bench.work import TimedEngine
from sapo_client.generation.groups import NOBODY
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.policy.lora import LoraOptions
from sapo_client.policy.policy import Policy, PolicyOptions
from sapo_lab.bench.node import never_ending
from sapo_verifier import protocol
from sapo_verifier.audit import Audit, Cost
from sapo_verifier.bases import Bases
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.model.policy_check import PolicyModels
from sapo_verifier.spec import Spec
from sapo_verifier.spots import Spots
from sapo_verifier.tasks import TaskWorker

CELLS = ((128, 8, 4), (128, 16, 2), (32, 8, 1), (32, 8, 4))  # n completions, K batches, s spots
GROUP, DIFFERENT = 8, 2  # completions in a group; adapters that take turns, so that each batch needs a merge
HEAD = ("n", "K", "s", "generated, s", "merge, s", "passes, s", "audit / generated", "one voter finds", "K voters find")


def table(folder: Path, *, rank: int, new_tokens: int, threads: int) -> None:
    """Prints each row when it is known. folder: a base with a chat template, or the pocket policy."""
    torch.set_num_threads(threads)
    spec = never_ending(bench_spec(folder, group_size=GROUP, max_new_tokens=new_tokens), folder)
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    with TaskWorker() as worker:
        for n in sorted({n for n, _, _ in CELLS}):
            audits, generated = _batches(spec, folder, n // GROUP, rank, worker)
            models = PolicyModels(Bases([folder]))
            models(_spots(audits[0], 0, 1))  # loads the base
            load = models.cost.load
            for cell in CELLS:
                if cell[0] == n:
                    print(_row(models, audits, generated, *cell), flush=True)
    print(f"\nload, once: {load:.2f} s; rank {rank}, {new_tokens} tokens a completion, {threads} threads")


def _row(models: PolicyModels, audits: list[Audit], generated: float, n: int, k: int, s: int) -> str:
    before = models.cost
    for batch in range(k):
        found = models(_spots(audits[batch % len(audits)], batch, s)).result
        if found.status != "pass":
            raise SystemExit(f"a batch does not pass its own check: {found}")
    cost: Cost = models.cost - before
    share = (cost.merge + cost.passes) / generated
    cells = [str(n), str(k), str(s), f"{generated:.1f}", f"{cost.merge:.2f}", f"{cost.passes:.2f}", f"{share:.1%}"]
    return f"| {' | '.join([*cells, f'{s / n:.1%}', f'{1 - (1 - s / n) ** k:.1%}'])} |"


def _spots(audit: Audit, voter: int, count: int) -> Audit:
    size = audit.facts.slots * audit.spec.group_size
    return replace(audit, spots=Spots(protocol.H("silo", voter, size), size, count))


def _batches(spec: Spec, folder: Path, slots: int, rank: int, worker: TaskWorker) -> tuple[list[Audit], float]:
    """Batches of different adapters, and what the engine took for one."""
    bases, audits, seconds = Bases([folder]), [], []
    for number in range(DIFFERENT):
        policy = Policy.load(folder, spec.bases[0], options=PolicyOptions(LoraOptions(rank)))
        if policy.adapters is None:
            raise SystemExit("the policy has no adapters")
        generator = torch.Generator().manual_seed(number)
        tensors = {
            name: 0.01 * torch.randn(tensor.shape, generator=generator)
            for name, tensor in policy.adapters.tensors().items()
        }
        policy.load_weights(bytes(save(tensors)))
        published = policy.publish()
        beacon = protocol.H("silo", number, 0)
        facts = BatchFacts.dealt(NO_CHAIN, NOBODY, 0, NOBODY, beacon, published.digest, slots)
        engine = TimedEngine(TorchEngine(policy, spec.max_new_tokens))
        batch = make_batch(spec, facts, policy, worker, engine)
        seconds.append(engine.seconds)
        blocks = {**batch.blocks, **{block_digest(b): b for b in [published.manifest, *published.blocks]}}
        audits.append(Audit(batch.facts, spec, blocks, worker, bases.tokenizer, dealt_before=batch.dealt))
    return audits, min(seconds)
