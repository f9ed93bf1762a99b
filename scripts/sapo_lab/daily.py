"""What a node moves and keeps, by its policy's size: bytes a round, a day, and on disk; the table of docs/operators.md.

scripts/in-venv -m sapo_lab.daily --tokens 256
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.model.lora import linear_layers
from sapo_verifier.objects import BatchManifest, GroupBlock, Record, encode_records
from sapo_verifier.schedule import KEEP_AFTER, SERVE_AFTER

DAY = 86_400
FLOAT32 = 4  # bytes: published weights and adapters are float32, whatever the base's files are
TEXT_BYTES = 4  # of a token, about; its record takes 20
PROMPT_BYTES = 1_000
OWN_ROUNDS = KEEP_AFTER + 2  # of own policies on disk: from the one committed ahead to the last that is owed
CHECKPOINTS = 4  # three, and the one that is being written
WITH_OPTIMIZER = 3  # weights, and two numbers more for each
KINDS = 5  # of blocks, one of which is asked for again in r + 3: policy, weights, manifest, group, records

SHAPES: dict[str, Any] = {
    "SmolLM2-135M": LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, tie_word_embeddings=True,
    ),
    "Qwen2.5-0.5B": Qwen2Config(
        vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, tie_word_embeddings=True,
    ),
}  # fmt: skip


def model_of(config: Any) -> Any:
    """Without memory for its weights."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]


def weights_bytes(model: Any, rank: int) -> int:
    """Of a published policy, its safetensors header (under 0.1 % of a real model's) left out. rank 0: all weights."""
    if not rank:
        return FLOAT32 * sum(int(parameter.numel()) for parameter in model.parameters())
    return FLOAT32 * rank * sum(layer.in_features + layer.out_features for layer in linear_layers(model).values())


def batch_bytes(groups: int, size: int, tokens: int) -> int:
    """Of a batch's blocks, as they are encoded. size: completions in a group; tokens: of each."""
    records = encode_records([[Record(0, 0, 0)] * tokens] * size)
    group = GroupBlock(
        slot=0,
        attempt=0,
        dataset="x" * 16,
        seed=2**31,
        prompt="x" * PROMPT_BYTES,
        completions=["x" * TEXT_BYTES * tokens] * size,
        records=bytes(32),
    )
    address = "0x" + "00" * 20
    manifest = BatchManifest(
        chain=1, contract=address, round=1000, node=address, policy=bytes(32), groups=[bytes(32)] * groups
    )
    return groups * (len(records) + len(group.encode())) + len(manifest.encode())


@dataclass(frozen=True)
class Sizes:
    """Bytes of one node. Down is also the mean of up: each batch is drawn as often as each node draws."""

    weights: int
    batch: int
    down: int  # a round
    disk: int  # at most


def sizes(weights: int, batch: int, *, draws: int, pool_rounds: int) -> Sizes:
    """draws: batches that a node is dealt in a round; fewer than the spec's where there are no more other nodes."""
    again = draws * (min(weights, BLOCK_LIMIT) // KINDS)
    others = (KEEP_AFTER + 1) * draws * batch + (max(pool_rounds, SERVE_AFTER) + 1) * draws * weights
    own = OWN_ROUNDS * (weights + batch) + CHECKPOINTS * WITH_OPTIMIZER * weights
    return Sizes(weights, batch, draws * (weights + batch) + again, own + others)


def rows(options: argparse.Namespace) -> list[str]:
    """A table as the documentation has it."""
    batch = batch_bytes(options.own_groups, options.group_size, options.tokens)
    a_round = [options.round_blocks * seconds for seconds in options.block_seconds]
    lines = [
        "| policy | published a round | down, and up, a round | "
        + " | ".join(f"a day, blocks of {s:g} s" for s in options.block_seconds)
        + f" | line, blocks of {min(options.block_seconds):g} s | disk |",
        "|---|---|---|" + "---|" * (len(a_round) + 2),
    ]
    for name, config in SHAPES.items():
        model = model_of(config)
        for rank in (0, options.lora_rank):
            found = sizes(weights_bytes(model, rank), batch, draws=options.draws, pool_rounds=options.pool_rounds)
            days = " | ".join(amount(found.down * DAY / seconds) for seconds in a_round)
            line = 8 * found.down / min(a_round) / 1e6
            what = f"{name}, " + (f"rank {rank}" if rank else "all weights")
            published = amount(found.weights + found.batch)
            disk = amount(found.disk)
            lines.append(f"| {what} | {published} | {amount(found.down)} | {days} | {line:.0f} Mbit/s | {disk} |")
    return [*lines, "", f"The batch alone: {amount(batch)}."]


def amount(count: float) -> str:
    """Bytes in words, of two digits at least."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}" if count < 10 * size else f"{count / size:.0f} {unit}"
    return f"{count / 1e3:.0f} KB"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compute what a node moves and keeps, by its policy's size.")
    parser.add_argument("--lora-rank", type=int, default=16, help="(%(default)s)")
    parser.add_argument("--own-groups", type=int, default=4, help="in a batch, all nodes alike (%(default)s)")
    parser.add_argument("--group-size", type=int, default=8, help="of the spec (%(default)s)")
    parser.add_argument("--tokens", type=int, default=256, help="of a completion (%(default)s)")
    parser.add_argument("--draws", type=int, default=8, help="of the spec; at most the other nodes (%(default)s)")
    parser.add_argument("--pool-rounds", type=int, default=2, help="of the spec (%(default)s)")
    parser.add_argument("--round-blocks", type=int, default=64, help="of the spec (%(default)s)")
    parser.add_argument("--block-seconds", type=float, nargs="+", default=[12.0, 2.0], help="of the chain (12 2)")
    print("\n".join(rows(parser.parse_args(argv))))


if __name__ == "__main__":
    main()
