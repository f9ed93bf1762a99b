"""Rules and prompts for a bench: reasoning-gym's tasks in the words that the policy's own template makes of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sapo_client.generation.groups import NOBODY
from sapo_client.policy.tokenization import prompt_ids
from sapo_verifier import protocol
from sapo_verifier.bases import Tokenizer
from sapo_verifier.errors import UsageError
from sapo_verifier.networks import base_rule, pocket_spec, with_changes
from sapo_verifier.spec import COMPACT, Spec, TaskRule
from sapo_verifier.tasks import PAPER_TASKS, TaskWorker, deal

BASE = "bench"
ADAPTER_BYTES, MAX_RANK = 1 << 40, 1 << 12  # nothing is published
PLAIN = "{question}\n{instruction}\n"


def bench_spec(folder: Path, *, group_size: int, max_new_tokens: int) -> Spec:
    """A network's rules for this one base: the paper's tasks, or the pocket policy's where the context holds no others.

    Raises SapoError for a folder that is no policy, and for sizes that no network can have.
    """
    if not (folder / "config.json").is_file():
        raise UsageError(f"{folder} is no policy: it has no config.json. Give a Hugging Face folder with --policy")
    template = chat_template(folder)
    spec = pocket_spec(folder)
    small = template is None and _context(folder) < spec.max_prompt_bytes
    base = base_rule(
        folder, BASE, COMPACT if small else template or PLAIN, max_adapter_bytes=ADAPTER_BYTES, max_rank=MAX_RANK
    )
    changes: dict[str, Any] = {
        "group_size": group_size,
        "max_new_tokens": max_new_tokens,
        "max_slots": max(1, protocol.MAX_COMPLETIONS // group_size),
        "bases": [base],
    }
    if not small:
        changes |= {"tasks": [TaskRule.model_validate(rule) for rule in PAPER_TASKS], "answer": "tag"}
    try:
        return with_changes(spec, **changes)
    except ValidationError as error:
        words = "; ".join(e["msg"].removeprefix("Value error, ") for e in error.errors(include_url=False))
        raise UsageError(f"no network can have these sizes: {words}") from error


def chat_template(folder: Path) -> str | None:
    """The folder's own chat template around a question; None where it has none."""
    file, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if not file.is_file() and not (config.is_file() and json.loads(config.read_text()).get("chat_template")):
        return None
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    message = {"role": "user", "content": PLAIN.strip()}
    return str(tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True))


def bench_prompts(spec: Spec, folder: Path, count: int, *, seed: int = 0) -> list[Sequence[int]]:
    """Token ids of `count` tasks' prompts, the same for the same seed."""
    if count > spec.max_slots:
        raise UsageError(
            f"{count} prompts in groups of {spec.group_size} are more than a batch holds: {spec.max_slots}"
        )
    tokenizer, beacon = Tokenizer(folder), protocol.H("silo", seed, 0)
    with TaskWorker() as worker:
        tasks = [deal(spec, beacon, NOBODY, slot, worker) for slot in range(count)]
    return [prompt_ids(tokenizer, spec.bases[0], task, spec.answer) for task in tasks]


def _context(folder: Path) -> int:
    return int(json.loads((folder / "config.json").read_text()).get("max_position_embeddings", 0))
