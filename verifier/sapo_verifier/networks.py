"""Specs that ship with the project, and how a base's entry in a spec is measured from its folder."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

from sapo_verifier import canonical
from sapo_verifier.bases import Tokenizer, digest_of_folder
from sapo_verifier.errors import SapoError
from sapo_verifier.spec import COMPACT, BaseRule, ChainRules, Spec, TaskRule, Versions
from sapo_verifier.tasks import POCKET_TASKS

MEBIBYTE = 1 << 20
ETHER = 10**18


def read_spec(path: Path) -> Spec:
    """A spec from readable JSON, in any layout: what counts is the canonical form. Raises SapoError."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise SapoError(f"the spec {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SapoError(f"the spec {path} is not JSON: {error}") from error
    return Spec.parse(canonical.encode(document))


def base_rule(folder: Path, base_id: str, template: str, *, max_adapter_bytes: int, max_rank: int = 0) -> BaseRule:
    """A base's entry in a spec, measured from its files.

    Raises SapoError if the folder's config.json does not say what a verifier has to know.
    """
    config = json.loads((folder / "config.json").read_text())
    tokenizer = Tokenizer(folder)
    eos = config.get("eos_token_id")
    context = config.get("max_position_embeddings")
    if eos is None or context is None:
        raise SapoError(f"{folder}/config.json needs eos_token_id and max_position_embeddings")
    return BaseRule(
        id=base_id,
        digest=digest_of_folder(folder),
        vocab=min(tokenizer.size(), config["vocab_size"]),
        eos=[eos] if isinstance(eos, int) else eos,
        context=context,
        template=template,
        max_token_bytes=tokenizer.max_token_bytes(),
        max_adapter_bytes=max_adapter_bytes,
        max_rank=max_rank,
    )


def pocket_spec(folder: Path, *, round_blocks: int = 64) -> Spec:
    """The devnet's rules: nine small tasks for the pocket policy in `folder`, groups of eight completions."""
    return Spec(
        chain=ChainRules(
            round_blocks=round_blocks,
            draws=8,
            min_accepts=2,
            min_rejects=3,  # three honest nodes are enough to reject, two liars are not
            exit_rounds=9,
            bond=hex(ETHER),
            dispute_bond=hex(ETHER // 20),
            missed_batch_fee=hex(ETHER // 50),
            missed_reveal_fee=hex(ETHER // 50),
            wrong_verdict_penalty=hex(ETHER // 20),
            supply=hex(10**9 * ETHER),
            initial_pool=hex(10**4 * ETHER),
            halving_rounds=50_000,
            auditors_share=1_000,
            max_per_unit=hex(10 * ETHER),
        ),
        group_size=8,
        max_slots=16,
        max_new_tokens=24,
        max_prompt_bytes=1024,
        pool_rounds=2,
        tasks=[TaskRule.model_validate(rule) for rule in POCKET_TASKS],
        answer="brackets",
        versions=Versions(reasoning_gym=version("reasoning-gym"), python=".".join(platform.python_version_tuple()[:2])),
        bases=[base_rule(folder, "pocket", COMPACT, max_adapter_bytes=8 * MEBIBYTE)],
    )
