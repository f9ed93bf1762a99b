"""`sapo bench`: tokens per second, peak memory, mismatch and repairs, for this machine and this configuration."""

import argparse
import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_client.commands.options import engine_option, json_option, lora_option, node_extra_missing, number_from
from sapo_verifier.commands.program import Commands, add_parser

if TYPE_CHECKING:
    from sapo_client.bench.work import Result

CHECKPOINTING = {"auto": None, "on": True, "off": False}
WORDS = "tokens per second, peak memory and mismatch of generation and training on this machine; no chain, no IPFS"


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "bench", WORDS, run)
    parser.add_argument("what", choices=("generate", "train", "step"), help="a step is generation and training")
    parser.add_argument("--policy", type=Path, required=True, metavar="FOLDER", help="the model")
    engine_option(parser)
    lora_option(parser)
    parser.add_argument("--prompts", type=number_from(1), default=4, metavar="N", help="groups (%(default)s)")
    parser.add_argument("--group-size", type=number_from(2), default=8, metavar="G", help="(%(default)s)")
    parser.add_argument("--max-new-tokens", type=number_from(1), default=64, metavar="T", help="(%(default)s)")
    parser.add_argument("--micro-batch-tokens", type=number_from(1), metavar="N", help="of training (a node's default)")
    parser.add_argument("--train-dtype", choices=("float32", "bfloat16"), default="float32", help="(%(default)s)")
    parser.add_argument("--checkpointing", choices=CHECKPOINTING, default="auto", help="auto: of large models")
    parser.add_argument("--threads", type=number_from(0), default=0, metavar="N", help="0: one per core (%(default)s)")
    parser.add_argument("--device", default="auto", help="auto: a graphics card if there is one (%(default)s)")
    parser.add_argument("--seed", type=number_from(0), default=0, help="of tasks and streams (%(default)s)")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Raises SapoError, in words, where this configuration cannot work here."""
    configuration, result = measure(options)
    if options.json:
        print(json.dumps({**configuration, **dataclasses.asdict(result)}, indent=1))
    else:
        print(table(configuration, result))
    return 0


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], "Result"]:
    """What ran, and what it took."""
    folder = options.policy.expanduser()
    threads = options.threads or len(os.sched_getaffinity(0))
    try:
        import torch

        from sapo_client.bench.prompts import bench_prompts, bench_spec
        from sapo_client.bench.work import bench
        from sapo_client.policy.lora import LoraOptions
        from sapo_client.policy.memory import MemoryOptions, pass_tokens
        from sapo_client.policy.policy import Policy, PolicyOptions
        from sapo_client.state.settings import GenerationSettings
        from sapo_client.training.sapo import TrainConfig
    except ModuleNotFoundError as error:
        raise node_extra_missing(error) from error
    device = options.device if options.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    spec = bench_spec(folder, group_size=options.group_size, max_new_tokens=options.max_new_tokens)
    prompts = bench_prompts(spec, folder, options.prompts, seed=options.seed)
    how = PolicyOptions(
        lora=LoraOptions(options.lora_rank) if options.lora_rank else None,
        memory=MemoryOptions(dtype=options.train_dtype, checkpointing=CHECKPOINTING[options.checkpointing]),
    )
    policy = Policy.load(folder, spec.bases[0], device=device, options=how)
    config = TrainConfig()
    if options.micro_batch_tokens:
        config = dataclasses.replace(config, micro_batch_tokens=options.micro_batch_tokens)
    settings = GenerationSettings(engine=options.engine)
    configuration = {
        "command": options.what,
        "policy": folder.name,
        "parameters": sum(parameter.numel() for parameter in policy.model.parameters()),
        "trained_parameters": sum(parameter.numel() for parameter in policy.parameters()),
        "engine": options.engine,
        "device": device,
        "threads": threads,
        "lora_rank": options.lora_rank,
        "prompts": options.prompts,
        "group_size": options.group_size,
        "max_new_tokens": options.max_new_tokens,
        "micro_batch_tokens": config.micro_batch_tokens or pass_tokens(policy.model),
        "train_dtype": options.train_dtype,
        "checkpointing": options.checkpointing,
        "torch": torch.__version__,
    }
    with bench(policy, spec, prompts, settings, config, threads=threads) as ready:
        ready.warm_up()
        return configuration, ready.run(options.what, seed=options.seed)


def table(configuration: dict[str, Any], result: "Result") -> str:
    """For a person: what ran, then what it took."""
    ran = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in configuration.items())
    rows = [
        ("tokens", f"{result.tokens} of {result.prompt_tokens + result.tokens} with prompts"),
        ("tokens per second", f"{result.tokens_per_second:.1f}"),
        ("seconds", f"{result.seconds:.2f} (CPU {result.cpu_seconds:.2f})"),
        ("  engine", f"{result.engine_seconds:.2f}"),
        ("  records and repairs", f"{result.records_seconds:.2f}"),
        ("  training", f"{result.train_seconds:.2f}"),
        ("peak memory", f"{result.peak_bytes / 2**20:.0f} MiB"),
        ("peak on the card", _or_none(result.cuda_peak_bytes, lambda peak: f"{peak / 2**20:.0f} MiB")),
        ("repaired positions", _or_none(result.repair_rate, lambda rate: f"{result.repaired} ({rate:.4%})")),
        ("widened intervals", _or_none(result.widened_rate, lambda rate: f"{rate:.4%}")),
        ("mismatch KL", _or_none(result.mismatch_kl, lambda kl: f"{kl:.1e} nats per token")),
    ]
    return "\n".join([ran, *(f"{name:<22} {value}" for name, value in rows)])


def _or_none(value: Any, words: Any) -> str:
    return "-" if value is None else str(words(value))
