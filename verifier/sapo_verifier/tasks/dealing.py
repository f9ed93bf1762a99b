"""The beacon deals a task to every slot; a base's template makes it a prompt (docs/protocol.md, Randomness)."""

import re

from sapo_verifier.errors import TaskError
from sapo_verifier.protocol import dataset_choice, generator_seed, task_seed
from sapo_verifier.spec import COMPACT, Spec, TaskRule
from sapo_verifier.tasks.compact import compact_prompt
from sapo_verifier.tasks.readings import reading, shows
from sapo_verifier.tasks.task import GeneratorError, Task
from sapo_verifier.tasks.worker import TaskWorker

MAX_ATTEMPTS = 64  # changing this changes which slots can be dealt at all

# Changing these changes every prompt. At most 256 bytes each (spec.INSTRUCTION_BYTES).
_INSTRUCTIONS = {
    "tag": "Put the final answer, and nothing else, inside <answer></answer>.",
    "brackets": "Reply with the final answer only, inside angle brackets, like <42>.",
    "whole": "Reply with the final answer and nothing else.",
}


def deal(spec: Spec, beacon: bytes, node: str, slot: int, worker: TaskWorker) -> Task:
    """The task of a node's slot: the first attempt that generates, fits and can be rendered for every base.

    Only what every machine finds alike passes an attempt over: a generator that raises, a question beyond
    `max_prompt_bytes` (UTF-8), one that shows its answer or whose answer has no reading, a compact prompt that does not
    exist. A worker that timed out or died raises TaskError instead, as does a spec none of whose first 64 attempts can
    be dealt.
    """
    compact = any(base.template == COMPACT for base in spec.bases)
    weights = [rule.weight for rule in spec.tasks]
    reason = ""
    for attempt in range(MAX_ATTEMPTS):
        drawn = task_seed(beacon, node, slot, attempt)
        rule = spec.tasks[dataset_choice(drawn, weights)]
        task, reason = _attempt(spec, rule, generator_seed(drawn), attempt, compact, worker)
        if task is not None:
            return task
    raise TaskError(
        f"slot {slot} of {node}: none of {MAX_ATTEMPTS} attempts gave a usable task ({reason}); "
        "the spec's max_prompt_bytes or task configurations do not fit each other"
    )


def _attempt(
    spec: Spec, rule: TaskRule, seed: int, attempt: int, compact: bool, worker: TaskWorker
) -> tuple[Task | None, str]:
    """A task, or why this attempt has none."""
    try:
        entry = worker.entry(rule.name, rule.config, seed)
    except GeneratorError as error:
        return None, str(error)
    question = entry["question"]
    if (size := len(question.encode("utf-8", "surrogatepass"))) > spec.max_prompt_bytes:
        return None, f"{rule.name}'s question has {size} bytes, more than {spec.max_prompt_bytes}"
    if reading(rule.name, entry["answer"]) is None:
        return None, f"the answer {entry['answer']!r} of {rule.name} has no reading"
    if shows(rule.name, question, entry["answer"]):
        return None, f"{rule.name}'s question shows its answer"
    prompt = None
    if compact:
        try:
            prompt = compact_prompt(rule.name, question, entry["metadata"])
        except TaskError as error:
            return None, str(error)
    return Task(rule.name, seed, attempt, question, entry["answer"], entry["metadata"], prompt), ""


def instruction(answer_style: str) -> str:
    """How to write the answer, as prompts say it."""
    if answer_style not in _INSTRUCTIONS:
        raise ValueError(f"answer style {answer_style!r} is none of {', '.join(_INSTRUCTIONS)}")
    return _INSTRUCTIONS[answer_style]


def render(task: Task, template: str, answer_style: str) -> str:
    """The prompt for a base: its compact form, or the template with {question} and {instruction} put in.

    One pass, so braces in the question stay as they are. Raises TaskError if the task has no compact prompt.
    """
    if template == COMPACT:
        if task.compact is None:
            raise TaskError(
                f"the task of {task.dataset} was dealt without a compact prompt; no base of the spec uses it"
            )
        return task.compact
    parts = {"{question}": task.question, "{instruction}": instruction(answer_style)}
    return re.sub(r"\{question\}|\{instruction\}", lambda found: parts[found.group()], template)


def rule_of(spec: Spec, dataset: str) -> TaskRule:
    """The spec's rule for a dataset. Raises TaskError unless there is exactly one."""
    rules = [rule for rule in spec.tasks if rule.name == dataset]
    if len(rules) != 1:
        raise TaskError(f"the spec has {len(rules)} rules for dataset {dataset!r}; it needs exactly one")
    return rules[0]
