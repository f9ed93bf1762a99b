"""vLLM on a graphics card against the records' float32 pass, for a Qwen-sized model with random weights."""

import argparse
import os
import platform
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sapo_client.bench.work import TimedEngine
from sapo_client.generation.factory import vllm_python
from sapo_client.generation.records import make_records
from sapo_client.generation.vllm.engine import VllmEngine, VllmOptions
from sapo_client.policy.policy import Policy
from sapo_client.state.settings import GenerationSettings
from sapo_devnet.checkout import ROOT
from sapo_verifier.spec import BaseRule

PAGE = ROOT / "docs" / "results" / "benchmarks-gpu.md"
VOCAB, ROWS, EOS = 151_665, 151_936, [151_643, 151_645]  # Qwen2.5's tokenizer, its output rows, its two ends
SHARPNESS = 0.04  # spread of the weights: at 0.02 all tokens are as likely, which no trained model's are


class Shape(NamedTuple):
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int


SHAPES = {  # of Qwen2.5-0.5B; and one that a CPU can try this script with
    "qwen-0.5b": Shape(hidden=896, intermediate=4864, layers=24, heads=14, kv_heads=2),
    "try": Shape(hidden=128, intermediate=256, layers=2, heads=2, kv_heads=2),
}


@dataclass(frozen=True)
class Row:
    """One run: seconds of generation, of the records pass; rates per position."""

    dtype: str
    positions: int
    start: float
    generating: float
    records: float
    repaired: int
    widened: int
    asleep: str

    def cells(self) -> list[str]:
        return [
            self.dtype,
            str(self.positions),
            f"{self.positions / self.generating:,.0f}",
            f"{self.records / self.generating:.1%}",
            f"{self.repaired / self.positions:.3%}",
            f"{self.widened / self.positions:.3%}",
            f"{self.start:.0f} s",
            self.asleep,
        ]


HEADER = "| decoding | positions | tokens/s | records pass / generation | repaired | widened | start | slept and woke |"


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(prog="scripts/gpu-check", description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="qwen-0.5b", help="(%(default)s)")
    parser.add_argument("--prompts", type=int, default=16, help="eight completions each (%(default)s)")
    parser.add_argument("--new-tokens", type=int, default=256, help="(%(default)s)")
    parser.add_argument("--cpu", action="store_true", help="try the script itself: no page is written")
    options = parser.parse_args()
    device = "cpu" if options.cpu else "cuda"
    with tempfile.TemporaryDirectory(prefix="sapo-gpu-") as name:
        folder = model_folder(Path(name) / "model", options.shape)
        base = BaseRule(
            id="qwen", digest=bytes(32), vocab=VOCAB, eos=EOS, context=4096, template="compact", max_token_bytes=256,
            max_adapter_bytes=1 << 40, max_rank=0,
        )  # fmt: skip
        policy = Policy.load(folder, base, device=device)
        rows = [run(policy, dtype, options.prompts, options.new_tokens) for dtype in ("bfloat16", "float32")]
    lines = [
        HEADER,
        "|" + "---|" * HEADER.count(" | ") + "---|",
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
    ]
    print("\n".join(lines))
    if not options.cpu:
        card = torch.cuda.get_device_name()
        PAGE.write_text(page(card, options.shape, lines), encoding="utf-8")
        print(f"written to {PAGE}")
    return 0


def run(policy: Policy, dtype: str, prompts: int, new_tokens: int) -> Row:
    """Generate, make the records, sleep, change the weights a little, generate again."""
    import torch

    rng = random.Random(0)
    ids = [[rng.randrange(VOCAB - 100) for _ in range(rng.randint(40, 200))] for _ in range(prompts)]
    rows = [prompt for prompt in ids for _ in range(8)]
    keys = [rng.randbytes(32) for _ in rows]
    options = VllmOptions(
        python=vllm_python(GenerationSettings(engine="vllm")),
        longest=200 + new_tokens,
        dtype=dtype,
        gpu_memory_utilization=0.4,
        max_num_seqs=128,
        threads=os.cpu_count() or 1,
    )
    with VllmEngine(policy, options, max_new_tokens=new_tokens) as engine:
        began = time.monotonic()
        engine.start()
        start = time.monotonic() - began
        engine.generate(rows[:8], [[] for _ in rows[:8]], keys[:8])  # first steps compile
        timed = TimedEngine(engine)
        began = time.monotonic()
        _, stats = make_records(timed, policy.model, rows, keys, vocab=VOCAB, max_new_tokens=new_tokens)
        passes = time.monotonic() - began - timed.seconds
        asleep = "a CPU does not"
        if engine.about["device"] != "cpu":
            before = torch.cuda.mem_get_info()[0]
            engine.sleep()
            freed = torch.cuda.mem_get_info()[0] - before
            again = make_records(engine, policy.model, rows[:8], keys[:8], vocab=VOCAB, max_new_tokens=new_tokens)[1]
            if freed <= 0 or again.repaired > 0.2 * again.positions:
                raise SystemExit(
                    f"asleep the engine freed {freed} bytes; afterwards {again}: it did not wake as it was"
                )
            asleep = f"{freed / 2**30:.1f} GiB freed"
    return Row(dtype, stats.positions, start, timed.seconds, passes, stats.repaired, stats.widened, asleep)


def model_folder(folder: Path, shape: str) -> Path:
    """Random weights in a Qwen2's shape, and a tokenizer of no use: ids go in, ids come out."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from sapo_client.pocket import make_tokenizer, save_tokenizer

    sizes = SHAPES[shape]
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=ROWS,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.intermediate,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        max_position_embeddings=4096,
        initializer_range=SHARPNESS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=EOS[0],
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    save_tokenizer(make_tokenizer(), folder)
    return folder


def page(card: str, shape: str, lines: list[str]) -> str:
    return f"""# On a graphics card

Written by `scripts/gpu-check` on {card} ({platform.machine()}). A model of the shape {shape} with random weights, so
its distributions are flatter than a trained model's. *repaired*: positions whose token was not the one that the float32
pass allows, cut and generated again; *widened*: rounding that an interval was widened for.

{chr(10).join(lines)}
"""


if __name__ == "__main__":
    sys.exit(main())
