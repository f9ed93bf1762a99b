"""The spec: a network's rules as one JSON document, whose digest is in the contract (docs/protocol.md, Spec)."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from sapo_verifier.catalogue import check_rule
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.errors import TaskError
from sapo_verifier.objects import Digest, Document, Positive
from sapo_verifier.protocol import MAX_COMPLETIONS, RECORD_BYTES
from sapo_verifier.schedule import STAGE_2_FACTOR

COMPACT = "compact"  # a base's template, for tiny models: see tasks/compact.py
COMPACT_MAX_BYTES = 32  # a compact prompt is never longer
INSTRUCTION_BYTES = 256  # no instruction text is longer; see tasks/dealing.py
JSON_BYTES_PER_BYTE = 6  # the worst that JSON makes of one byte of text is "\\u0000"
GROUP_OVERHEAD_BYTES = 4096  # a group block's other fields, and the quotes and commas between its texts

Amount = Annotated[str, StringConstraints(pattern=r"^0x(0|[1-9a-f][0-9a-f]{0,63})$")]  # wei
Count16 = Annotated[int, Field(ge=1, lt=2**16)]
Answer = Literal["tag", "brackets", "whole"]
Value = bool | int | str | list[Any] | dict[str, Any]


class Rules(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ChainRules(Rules):
    """The numbers that the contracts repeat; a node refuses a chain that differs."""

    round_blocks: Annotated[int, Field(ge=4, lt=2**32)]  # a beacon is captured in the first half, after its first block
    draws: Annotated[int, Field(ge=1, le=31)]  # batches in a stage-1 window
    min_accepts: Count16  # at most the draws
    min_rejects: Count16  # at most four times the draws
    exit_rounds: Annotated[int, Field(ge=9, lt=2**16)]  # longer than the lives of two rounds committed to ahead
    bond: Amount
    dispute_bond: Amount
    missed_batch_fee: Amount  # a policy committed and nothing submitted; this and the next three: at most the bond
    missed_reveal_fee: Amount  # verdicts committed and not revealed
    wrong_verdict_penalty: Amount
    withheld_fee: Amount  # a batch that nobody could look at
    supply: Amount  # of the token, in its smallest unit, as the next ones
    initial_pool: Amount  # of each of the first halving_rounds rounds; Σ of all pools is at most the supply
    halving_rounds: Annotated[int, Field(ge=1, lt=2**53)]
    auditors_share: Annotated[int, Field(ge=0, le=10_000)]  # of a pool, in ten-thousandths
    max_per_unit: Amount  # what a one of a claim earns at most
    max_per_verdict: Amount  # what a right verdict earns at most

    @model_validator(mode="after")
    def _windows_can_decide(self) -> Self:
        """More votes than a batch has voters would decide nothing; the contracts refuse it, too."""
        for name, most in (("min_accepts", self.draws), ("min_rejects", STAGE_2_FACTOR * self.draws)):
            if (least := getattr(self, name)) > most:
                raise ValueError(f"{name} is {least}, and with {self.draws} draws a batch has about {most} voters")
        return self


class TaskRule(Rules):
    name: str
    config: dict[str, Value]
    weight: Count16

    @model_validator(mode="after")
    def _decimals_are_decimals(self) -> Self:
        _check_decimals(self.config)
        return self


class BaseRule(Rules):
    """A model that policies start from, as every verifier can load it."""

    id: str
    digest: Digest  # over its files: bases.digest_of_folder
    vocab: Positive  # ids from here on are never sampled
    eos: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=16)]
    context: Positive  # tokens
    template: str  # "compact", or a text with {question} and {instruction}
    max_token_bytes: Positive  # the most that a group block grows by one token: its text's bytes, JSON escapes included
    max_adapter_bytes: Positive  # of a published policy's safetensors file
    max_rank: Annotated[int, Field(ge=0)]  # 0: no adapters

    @model_validator(mode="after")
    def _ends_are_tokens(self) -> Self:
        if not all(eos < self.vocab for eos in self.eos):
            raise ValueError(f"base {self.id}: every eos must be below vocab {self.vocab}")
        return self

    @model_validator(mode="after")
    def _template_holds_the_question(self) -> Self:
        questions, instructions = self.template.count("{question}"), self.template.count("{instruction}")
        if self.template != COMPACT and (questions != 1 or instructions > 1):  # longest_prompt counts each once
            raise ValueError(
                f"base {self.id}: a template is {COMPACT!r}, or holds {{question}} once, {{instruction}} at most once"
            )
        return self

    def longest_prompt(self, max_prompt_bytes: int) -> int:
        """Tokens at most, as no tokenizer makes more than one token of a byte; one more for a begin-of-text token."""
        if self.template == COMPACT:
            return 1 + COMPACT_MAX_BYTES
        return 1 + max_prompt_bytes + len(self.template.encode()) + INSTRUCTION_BYTES


class Versions(Rules):
    """What has to agree for two machines to deal and score the same tasks."""

    reasoning_gym: str
    digest: Digest  # over a few hundred items of the spec's task rules: tasks.tasks_digest


class Spec(Document):
    """A network's rules. Valid only if the worst honest group still fits its blocks, its base and its claim word."""

    chain: ChainRules
    group_size: Count16
    max_slots: Count16
    max_new_tokens: Count16
    max_prompt_bytes: Positive
    pool_rounds: Count16  # how many rounds back the external pool reaches
    tasks: Annotated[list[TaskRule], Field(min_length=1, max_length=64)]  # bounds what a refusal may cost, too
    spot: Annotated[int, Field(ge=1, le=MAX_COMPLETIONS)]  # completions of a batch for a stage-1 voter to recompute
    answer: Answer
    versions: Versions
    bases: Annotated[list[BaseRule], Field(min_length=1, max_length=64)]

    @model_validator(mode="after")
    def _everything_fits(self) -> Self:
        if (count := self.max_slots * self.group_size) > MAX_COMPLETIONS:
            raise ValueError(f"max_slots · group_size is {count}, more than a claim word's {MAX_COMPLETIONS}")
        if (size := self.group_size * (4 + RECORD_BYTES * self.max_new_tokens)) > BLOCK_LIMIT:
            raise ValueError(f"a records block could take {size} bytes, more than {BLOCK_LIMIT}")
        for rule in self.tasks:
            _may_pay(rule)
        if len({rule.name for rule in self.tasks}) != len(self.tasks):
            raise ValueError("two task rules name the same dataset; a group block could not say which one it follows")
        if len({base.id for base in self.bases}) != len(self.bases):
            raise ValueError("two bases have the same id")
        for base in self.bases:
            self._base_fits(base)
        return self

    def _base_fits(self, base: BaseRule) -> None:
        prompt = base.longest_prompt(self.max_prompt_bytes)
        if prompt + self.max_new_tokens > base.context:
            raise ValueError(
                f"base {base.id}: the longest prompt ({prompt} tokens) and {self.max_new_tokens} new tokens "
                f"do not fit its context of {base.context}"
            )
        completion = self.max_new_tokens * base.max_token_bytes
        worst = self.group_size * completion + JSON_BYTES_PER_BYTE * prompt + GROUP_OVERHEAD_BYTES
        if worst > BLOCK_LIMIT:
            raise ValueError(f"base {base.id}: a group block could take {worst} bytes, more than {BLOCK_LIMIT}")

    def digest(self) -> bytes:
        """sha2-256 of the canonical bytes: the spec's address, and what the contract holds."""
        return block_digest(self.encode())

    def base(self, base_id: str) -> BaseRule | None:
        return next((base for base in self.bases if base.id == base_id), None)


_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


def _check_decimals(value: Any) -> None:
    if isinstance(value, dict) and set(value) == {"decimal"}:
        if not isinstance(text := value["decimal"], str) or not _DECIMAL.fullmatch(text):
            raise ValueError(f'{text!r} is no decimal; write it as {{"decimal": "0.5"}}')
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_decimals(item)


def _may_pay(rule: TaskRule) -> None:
    try:
        check_rule(rule.name, rule.config)
    except TaskError as error:
        raise ValueError(str(error)) from error
