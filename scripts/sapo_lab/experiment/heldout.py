"""Held-out pass@1: one sampled answer to each of a fixed list of tasks, whatever the seed of the run."""

from collections.abc import Sequence
from dataclasses import dataclass

from sapo_client.generation.engine import Engine
from sapo_client.generation.groups import NOBODY
from sapo_client.policy.policy import Policy
from sapo_client.policy.tokenization import prompt_ids
from sapo_lab.experiment.stacked import generate_stacked, stackable
from sapo_verifier import protocol
from sapo_verifier.protocol import generator_seed, stream_key, task_seed
from sapo_verifier.spec import Spec, TaskRule
from sapo_verifier.tasks import Task, TaskError, TaskWorker, compact_prompt, rewards

BEACON = protocol.H("heldout", 0)


@dataclass(frozen=True)
class HeldOut:
    """The tasks, equally many of each dataset of the spec."""

    spec: Spec
    tasks: list[Task]
    worker: TaskWorker

    @classmethod
    def make(cls, spec: Spec, per_dataset: int, worker: TaskWorker) -> "HeldOut":
        """Seeds that no beacon of a run deals. Raises TaskError for a dataset that gives no usable task."""
        tasks = [
            task for position, rule in enumerate(spec.tasks) for task in _of(position, rule, spec, per_dataset, worker)
        ]
        return cls(spec, tasks, worker)

    def pass_at_1(
        self, policies: Sequence[Policy], engines: Sequence[Engine], *, stack: bool = True
    ) -> list[dict[str, float]]:
        """For each policy the share of right answers by dataset. The streams are the same at every call.

        engines: what generates for each policy, where they cannot run stacked, or must not.
        """
        size = len(self.tasks)
        keys = [stream_key(BEACON, bytes(32), NOBODY, slot, 0) for slot in range(size)]
        found: list[dict[str, float]] = [{} for _ in policies]
        texts: list[list[str]] = [[] for _ in policies]
        for base in dict.fromkeys(policy.base.id for policy in policies):
            same = [i for i, policy in enumerate(policies) if policy.base.id == base]
            first = policies[same[0]]
            prompts = [prompt_ids(first.tokenizer, first.base, task, self.spec.answer) for task in self.tasks]
            limit = self.spec.max_new_tokens
            models = [policies[i].model for i in same]
            if stack and stackable(models):
                made = generate_stacked(
                    models,
                    [prompts] * len(same),
                    [keys] * len(same),
                    vocab=first.base.vocab,
                    eos=first.base.eos,
                    max_new_tokens=limit,
                )
            else:
                made = [engines[i].generate(prompts, [[]] * size, keys) for i in same]
            for i, completions in zip(same, made, strict=True):
                texts[i] = [policies[i].text(tokens) for tokens in completions]
        for slot, task in enumerate(self.tasks):  # one task at a time: the worker keeps few of them ready
            scores = rewards(self.spec, task, [of_policy[slot] for of_policy in texts], self.worker)
            for by_dataset, score in zip(found, scores, strict=True):
                by_dataset[task.dataset] = by_dataset.get(task.dataset, 0.0) + bool(score)
        count = size // len(self.spec.tasks)
        return [{name: right / count for name, right in by_dataset.items()} for by_dataset in found]


def _of(position: int, rule: TaskRule, spec: Spec, count: int, worker: TaskWorker) -> list[Task]:
    compact = any(base.template == "compact" for base in spec.bases)
    tasks: list[Task] = []
    for attempt in range(8 * count):
        seed = generator_seed(task_seed(protocol.H("heldout", position), NOBODY, 0, attempt))
        try:
            entry = worker.entry(rule.name, rule.config, seed)
            prompt = compact_prompt(rule.name, entry["question"], entry["metadata"]) if compact else None
        except TaskError:  # the generator failed, or there is no compact prompt: never dealt either
            continue
        if len(entry["question"].encode()) <= spec.max_prompt_bytes:
            tasks.append(Task(rule.name, seed, 0, entry["question"], entry["answer"], entry["metadata"], prompt))
        if len(tasks) == count:
            return tasks
    raise TaskError(f"dataset {rule.name!r} gave {len(tasks)} usable tasks of {count}")
