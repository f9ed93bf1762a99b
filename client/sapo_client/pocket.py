"""The pocket policy: a tiny Llama that a script makes in minutes, for one machine, tests and demonstrations.

It knows the pocket tasks of `sapo_verifier.tasks`, one character per token, but it seldom writes its answer as
the rewards want it: it was last trained on a mixture of the right format and broken ones. What is missing is learned
within tens of rounds, so that a small swarm shows learning while one watches.
"""

import argparse
import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sapo_verifier.catalogue import POCKET_TASKS, plain_config
from sapo_verifier.errors import TaskError
from sapo_verifier.tasks.compact import COMPACT_ALPHABET, compact_answer, compact_prompt
from sapo_verifier.tasks.task import Task

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from sapo_verifier.model.forward import Passage

PAD, EOS = "<pad>", "<eos>"  # ids 0 and 1; the alphabet's characters follow
EOS_ID = 1
VOCAB = 2 + len(COMPACT_ALPHABET)
CONTEXT = 128

STEPS = 1500  # on right answers; a tenth of it more on the mixture
BATCH = 128
MICRO_BATCH_TOKENS = 1536  # little padding: most items are short
PEAK_RATE = 3e-3
MIXTURE_RATE = 5e-4
POOL = 4000  # items per task
RIGHT = "<{}>"
RIGHT_FORMAT = 0.3  # share of the rewarded format in the mixture
# Formats that earn nothing; `{}` is the answer.
BROKEN = ("{}", "{}.", "[{}]", "<{}", "{}>", "<{}>.", "={}")


class Item(NamedTuple):
    """A compact prompt, and its right answer without brackets."""

    prompt: str
    answer: str


def build_pocket(
    folder: Path,
    seed: int,
    *,
    steps: int = STEPS,
    threads: int = 1,
    right_format: float = RIGHT_FORMAT,
    log: Callable[[str], None] = print,
) -> None:
    """Write the pocket policy as a Hugging Face folder; takes minutes, or one with 300 steps (and knows less).

    right_format: how often the mixture that it is trained on last has the format that is rewarded.
    Equal arguments give equal bytes on one kind of machine; more threads are seldom faster, and give other bytes.
    """
    import torch
    from safetensors.torch import save

    torch.set_num_threads(threads)
    started = time.monotonic()
    pools = make_items(seed, min(POOL, 16 * steps))  # about what a short build gets to see
    log(f"pocket: {sum(map(len, pools))} items of {len(pools)} tasks after {time.monotonic() - started:.0f} s")
    tokenizer = make_tokenizer()
    torch.manual_seed(seed)
    model = make_model()
    rng = random.Random(f"pocket/{seed}")
    pupil = Pupil(model, tokenizer, pools, rng)
    pupil.train(steps, PEAK_RATE, lambda: RIGHT, lambda line: log(f"pocket: right answers, {line}"))
    pupil.train_formats(max(1, steps // 10), right_format, lambda line: log(f"pocket: formats, {line}"))
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(save(dict(model.named_parameters()), metadata={"format": "pt"}))
    save_tokenizer(tokenizer, folder)
    log(f"pocket: written to {folder} after {time.monotonic() - started:.0f} s")


@dataclass
class Pupil:
    """A model under supervised training on right answers, in one format or another."""

    model: Any
    tokenizer: "Tokenizer"
    pools: Sequence[Sequence[Item]]
    rng: random.Random

    def train(self, steps: int, peak: float, pick_format: Callable[[], str], log: Callable[[str], None]) -> None:
        """AdamW with a short warm-up and a cosine down to a tenth of `peak`; cross-entropy on completions only."""
        import torch

        from sapo_client.policy.log_probs import token_log_probs
        from sapo_verifier.model.forward import micro_batches

        optimizer = torch.optim.AdamW(self.model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=0.01)
        warm_up = max(1, steps // 15)
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = peak * min((step + 1) / warm_up, 0.55 + 0.45 * math.cos(math.pi * step / steps))
            passages = [self.passage(pick_format()) for _ in range(BATCH)]
            tokens = sum(len(passage.completion) for passage in passages)
            optimizer.zero_grad(set_to_none=True)
            total = 0.0
            for batch in micro_batches([passage.length for passage in passages], MICRO_BATCH_TOKENS):
                loss = -token_log_probs(self.model, [passages[i] for i in batch], VOCAB).sum() / tokens
                loss.backward()  # type: ignore[no-untyped-call]
                total += loss.item()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            if (step + 1) % 100 == 0:
                log(f"step {step + 1} of {steps}, loss {total:.3f}")

    def train_formats(self, steps: int, right_format: float, log: Callable[[str], None]) -> None:
        """On right answers of which this share is in the rewarded format, and the others in broken ones."""
        self.train(
            steps,
            MIXTURE_RATE,
            lambda: RIGHT if self.rng.random() < right_format else self.rng.choice(BROKEN),
            log,
        )

    def passage(self, answer_format: str) -> "Passage":
        """A random item of a random task, as ids, with its end-of-sequence token."""
        from sapo_verifier.model.forward import Passage

        prompt, answer = self.rng.choice(self.rng.choice(self.pools))
        answer_ids = self.tokenizer.encode(answer_format.format(answer)).ids
        return Passage(self.tokenizer.encode(prompt).ids, [*answer_ids, EOS_ID])


def make_items(seed: int, size: int = POOL) -> list[list[Item]]:
    """Items per pocket task, from the same generators as dealt tasks, with seeds of their own."""
    import reasoning_gym

    pools = []
    for position, rule in enumerate(POCKET_TASKS):
        name, config = rule["name"], plain_config(rule["config"])
        dataset = reasoning_gym.create_dataset(name, seed=seed * 100 + position, size=size, **config)
        pools.append([item for entry in dataset if (item := _item(name, entry)) is not None])
    return pools


def _item(name: str, entry: dict[str, Any]) -> Item | None:
    metadata = json.loads(json.dumps(entry["metadata"], default=str))
    try:
        prompt = compact_prompt(name, entry["question"], metadata)
    except TaskError:
        return None  # too large for a compact prompt, and never dealt either
    task = Task(name, 0, 0, entry["question"], entry["answer"], metadata, prompt)
    return Item(prompt, compact_answer(task))


def make_tokenizer() -> "Tokenizer":
    """One token per character of the compact alphabet; decode(encode(x)) == x, nothing added, nothing cleaned up."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    vocab = {token: i for i, token in enumerate([PAD, EOS, *COMPACT_ALPHABET])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in (PAD, EOS)])
    return tokenizer


def make_model() -> Any:
    """About 344,000 parameters, from torch's random state."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        initializer_range=0.05,
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=EOS_ID,
    )
    model: Any = LlamaForCausalLM(config)
    return model.eval()


def save_tokenizer(tokenizer: "Tokenizer", folder: Path) -> None:
    """tokenizer.json, and what transformers wants to know beside it."""
    from transformers import PreTrainedTokenizerFast

    described: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
    )
    described.save_pretrained(folder)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sapo_client.pocket", description="Make the pocket policy.")
    parser.add_argument("folder", type=Path, help="where the Hugging Face folder goes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help="steps on right answers (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default: %(default)s)")
    parser.add_argument(
        "--right-format",
        type=float,
        default=RIGHT_FORMAT,
        metavar="SHARE",
        help="of the rewarded format in the last steps: how often the policy is right at first (default: %(default)s)",
    )
    arguments = parser.parse_args(argv)
    build_pocket(
        arguments.folder,
        arguments.seed,
        steps=arguments.steps,
        threads=arguments.threads,
        right_format=arguments.right_format,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
