"""Tasks: dealt by the beacon, generated and scored in one worker process, rendered into prompts."""

from sapo_verifier.catalogue import (
    CATALOGUE,
    NOT_PAYABLE,
    PAPER_DATASETS,
    PAPER_TASKS,
    POCKET_TASKS,
    check_rule,
)
from sapo_verifier.errors import TaskError
from sapo_verifier.tasks.agreement import OtherTasksError, check_versions, tasks_digest
from sapo_verifier.tasks.compact import COMPACT_ALPHABET, compact_answer, compact_prompt
from sapo_verifier.tasks.dealing import deal, instruction, render
from sapo_verifier.tasks.readings import reading, right, shows
from sapo_verifier.tasks.rewards import MAX_ANSWER_BYTES, extract, rewards
from sapo_verifier.tasks.task import GeneratorError, Task
from sapo_verifier.tasks.worker import TaskWorker

__all__ = [
    "CATALOGUE",
    "COMPACT_ALPHABET",
    "MAX_ANSWER_BYTES",
    "NOT_PAYABLE",
    "PAPER_DATASETS",
    "PAPER_TASKS",
    "POCKET_TASKS",
    "GeneratorError",
    "OtherTasksError",
    "Task",
    "TaskError",
    "TaskWorker",
    "check_rule",
    "check_versions",
    "compact_answer",
    "compact_prompt",
    "deal",
    "extract",
    "instruction",
    "reading",
    "render",
    "rewards",
    "right",
    "shows",
    "tasks_digest",
]
