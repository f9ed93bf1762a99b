"""Specs that ship with the project, and how a base's entry in a spec is measured from its folder."""

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from sapo_verifier import canonical
from sapo_verifier.bases import Tokenizer, digest_of_folder
from sapo_verifier.errors import ObjectError, SapoError, UsageError
from sapo_verifier.folders import batch_context, check_config, read_object
from sapo_verifier.protocol import MAX_COMPLETIONS
from sapo_verifier.spec import COMPACT, Answer, BaseRule, ChainRules, Spec, TaskRule, Versions
from sapo_verifier.supported import refuse_other_version
from sapo_verifier.tasks import PAPER_TASKS, POCKET_TASKS, tasks_digest
from sapo_verifier.templates import CHATML, EXAMPLES
from sapo_verifier.templates import chat_template as chat_template

MEBIBYTE = 1 << 20
UNLIMITED = 2**53 - 1  # the largest number that a rule can hold
ROUND_BLOCKS = 64
EXPECTED_NODES = 30  # where nobody says how large a network will be
AUDIT_SHARE = 4  # the part of a batch's completions that a node recomputes in a round, all spots together: n / 4
GROUP_SIZE, MAX_SLOTS = 8, 16
LARGE = 50  # nodes, from which on a batch needs more voters than eight to be sure of four
ETHER = 10**18


def read_spec(path: Path) -> Spec:
    """A spec from readable JSON, in any layout: what counts is the canonical form. Raises UsageError."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"the spec {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"the spec {path} is not JSON: {error}") from error
    if isinstance(document, dict):
        refuse_other_version(document.get("v"), f"the spec {path}")
    try:
        return Spec.parse(canonical.encode(document))
    except ObjectError as error:
        raise UsageError(f"the spec {path} cannot be: {error}") from error


class Measured(NamedTuple):
    """What a model's files say of it, as every spec and every policy reads them."""

    vocab: int  # ids from here on are never sampled
    eos: list[int]  # what ends a completion
    context: int  # tokens
    tokenizer: Tokenizer


def measure(folder: Path) -> Measured:
    """Read a model's folder, its weights excepted: config.json, generation_config.json, tokenizer.json.

    Raises SapoError, naming the file, if they do not say what generation has to know.
    """
    if not folder.is_dir():
        raise SapoError(f"there is no folder {folder}; give the folder of a model")
    config = check_config(folder)
    tokenizer = Tokenizer(folder)
    eos = _ends(folder)
    numbers = ("max_position_embeddings", "vocab_size")
    missing = [name for name in numbers if config.get(name) is None]
    if missing := [*([] if eos else ["eos_token_id"]), *missing]:
        raise SapoError(f"{folder}/config.json needs {' and '.join(missing)}; take another model, or add what is known")
    if (known := tokenizer.size(added=False)) > config["vocab_size"]:
        raise SapoError(
            f"{folder}/tokenizer.json has {known} tokens and config.json a vocab_size of {config['vocab_size']}; they "
            "must be one model's"
        )
    vocab = min(tokenizer.size(), config["vocab_size"])
    if not all(type(end) is int and 0 <= end < vocab for end in eos):
        raise SapoError(
            f"{folder} names {eos} as end tokens (eos_token_id), but its ids go from 0 to {vocab - 1}; "
            "config.json, generation_config.json and tokenizer.json must be one model's"
        )
    context = min(config["max_position_embeddings"], batch_context(config) or UNLIMITED)
    return Measured(vocab, eos, context, tokenizer)


def base_rule(folder: Path, base_id: str, template: str, *, max_adapter_bytes: int, max_rank: int = 0) -> BaseRule:
    """A base's entry in a spec, measured from its files. Hashes all of them.

    Raises SapoError if they do not say what a verifier has to know.
    """
    measured = measure(folder)
    return BaseRule(
        id=base_id,
        digest=digest_of_folder(folder),
        vocab=measured.vocab,
        eos=measured.eos,
        context=measured.context,
        template=template,
        max_token_bytes=measured.tokenizer.max_token_bytes(),
        max_adapter_bytes=max_adapter_bytes,
        max_rank=max_rank,
    )


def unlisted_base(folder: Path) -> BaseRule:
    """The rule of a model that no spec lists: measured as if, with no digest and no limits. No network takes it.

    Raises SapoError if the folder's files do not say what generation has to know.
    """
    measured = measure(folder)
    return BaseRule(
        id=folder.name,
        digest=bytes(32),
        vocab=measured.vocab,
        eos=measured.eos,
        context=measured.context,
        template="{question}",
        max_token_bytes=UNLIMITED,
        max_adapter_bytes=UNLIMITED,
        max_rank=UNLIMITED,
    )


def _ends(folder: Path) -> list[Any]:
    """What ends a text: chat models often name the end of a turn in config.json, and all ends for generation."""
    ends: list[Any] = []
    for name in ("config.json", "generation_config.json"):
        path = folder / name
        found = read_object(path).get("eos_token_id") if path.is_file() else None
        ends += found if isinstance(found, list) else [] if found is None else [found]
    return [end for at, end in enumerate(ends) if end not in ends[:at]]


def smollm2_base(folder: Path, answer: Answer) -> BaseRule:
    """SmolLM2-135M-Instruct in a spec: adapters of rank 32 at most, and no policies of all weights."""
    template = chat_template(answer, EXAMPLES)
    return base_rule(folder, "smollm2", template, max_adapter_bytes=64 * MEBIBYTE, max_rank=32)


def chat_base(
    folder: Path, base_id: str, *, answer: Answer = "tag", examples: bool = False, style: str = CHATML
) -> BaseRule:
    """Any model that was trained on the style, in a spec with these answers: adapters of rank 64 at most."""
    template = chat_template(answer, EXAMPLES if examples else (), style=style)
    return base_rule(folder, base_id, template, max_adapter_bytes=1024 * MEBIBYTE, max_rank=64)


def pocket_base(folder: Path) -> BaseRule:
    """The pocket policy in a spec: all weights, no adapters."""
    return base_rule(folder, "pocket", COMPACT, max_adapter_bytes=8 * MEBIBYTE)


def pocket_spec(folder: Path) -> Spec:
    """The devnet's rules: seven small tasks for the pocket policy in `folder`, groups of eight completions."""
    return _spec([pocket_base(folder)], POCKET_TASKS, "brackets", ROUND_BLOCKS, max_new_tokens=24)


def models_spec(
    bases: Sequence[BaseRule],
    *,
    answer: Answer = "tag",
    round_blocks: int = ROUND_BLOCKS,
    max_new_tokens: int = 256,
    nodes: int = EXPECTED_NODES,
    spot: int | None = None,
) -> Spec:
    """Rules for language models that follow an instruction: what may pay of the paper's nine datasets.

    nodes: how many are expected. spot: completions of a batch that each voter recomputes; None: as `spot_of` has it.
    Raises ValueError for bases that are too small for it, and for a spot that no batch can have.
    """
    found = quorums(nodes)
    spot = spot_of(GROUP_SIZE * MAX_SLOTS, min(found.draws, nodes - 1)) if spot is None else spot
    return _spec(bases, PAPER_TASKS, answer, round_blocks, max_new_tokens=max_new_tokens, quorums=found, spot=spot)


def mixed_spec(bases: Sequence[BaseRule]) -> Spec:
    """Rules for a devnet of small models, the pocket policy among them or not: its tasks, its answers in brackets.

    Completions are short, so that a CPU plays a round of SmolLM2 in a minute.
    """
    return _spec(bases, POCKET_TASKS, "brackets", ROUND_BLOCKS, max_new_tokens=24)


class Quorums(NamedTuple):
    """How many look at a batch, and how many of them it takes (docs/economics.md)."""

    draws: int
    min_accepts: int
    min_rejects: int


DEVNET = Quorums(8, 2, 3)  # three honest nodes are enough to reject, two liars are not


def quorums(nodes: int) -> Quorums:
    """For a network of so many nodes. Two of them may be away without a batch going unpaid, as far as there are two."""
    return Quorums(
        draws=16 if nodes > LARGE else 8,
        min_accepts=max(1, min(4, nodes - 2)),
        min_rejects=max(1, min(8, nodes // 2)),
    )


def spot_of(completions: int, voters: int) -> int:
    """Of so many completions those that each of a batch's voters recomputes, so that a node's whole audit is a quarter
    of its own batch's completions."""
    return max(1, completions // (AUDIT_SHARE * voters))


def too_few(chain: ChainRules, nodes: int) -> str:
    """Why a round with so many batches cannot decide as the rules mean it, in words; empty where it can."""
    if chain.min_accepts > nodes - 2:
        return (
            f"{nodes} nodes had a batch, and each batch needs {chain.min_accepts} accepts (min_accepts) of others: it "
            "ends void and unpaid where two of them are away or in trouble"
        )
    if 2 * chain.min_rejects > nodes:
        return (
            f"{nodes} nodes had a batch, and it takes {chain.min_rejects} of them (min_rejects) to reject a false one: "
            "where honest nodes are away it ends void, and nobody is slashed"
        )
    return ""


def versions_of(rules: Sequence[TaskRule]) -> Versions:
    """What a spec with these task rules says of them, as this machine makes their items: seconds, unless it is kept.

    Raises SapoError where they cannot be made here.
    """
    return Versions(digest=tasks_digest(rules), reasoning_gym=version("reasoning-gym"))


def with_changes(spec: Spec, **changes: Any) -> Spec:
    """The spec with other fields, checked as a whole; other task rules are measured. Raises ValueError."""
    changed = spec.model_copy(update=changes)
    if "tasks" in changes:
        changed = changed.model_copy(update={"versions": versions_of(changed.tasks)})
    return Spec.model_validate(changed.to_json())


def _spec(
    bases: Sequence[BaseRule],
    tasks: Sequence[dict[str, Any]],
    answer: Answer,
    round_blocks: int,
    *,
    max_new_tokens: int,
    quorums: Quorums = DEVNET,
    spot: int = MAX_COMPLETIONS,  # every completion: what few nodes can afford
) -> Spec:
    rules = [TaskRule.model_validate(rule) for rule in tasks]
    return Spec(
        chain=ChainRules(
            round_blocks=round_blocks,
            draws=quorums.draws,
            min_accepts=quorums.min_accepts,
            min_rejects=quorums.min_rejects,
            exit_rounds=9,
            bond=hex(ETHER),
            dispute_bond=hex(ETHER // 20),
            missed_batch_fee=hex(ETHER // 50),
            missed_reveal_fee=hex(ETHER // 20),  # as a wrong verdict: silence is not the cheap way out
            wrong_verdict_penalty=hex(ETHER // 20),
            withheld_fee=hex(ETHER // 10),  # more than a missed batch, so that nobody hides what is false for less
            supply=hex(10**9 * ETHER),
            initial_pool=hex(10**4 * ETHER),
            halving_rounds=50_000,
            auditors_share=1_000,
            max_per_unit=hex(10 * ETHER),
            max_per_verdict=hex(20 * ETHER),  # about what one earns where eight nodes audit each other
        ),
        group_size=GROUP_SIZE,
        max_slots=MAX_SLOTS,
        max_new_tokens=max_new_tokens,
        max_prompt_bytes=1024,
        pool_rounds=2,
        spot=spot,
        tasks=rules,
        answer=answer,
        versions=versions_of(rules),
        bases=list(bases),
    )
