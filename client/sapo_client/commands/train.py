"""`sapo train`: one policy alone. No chain, no IPFS, no peers."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sapo_client.commands.options import (
    POLICY_HELP,
    base_option,
    device_option,
    engine_option,
    home_option,
    lora_option,
    node_extra_missing,
)
from sapo_verifier.commands.program import Commands, add_parser

if TYPE_CHECKING:
    from sapo_verifier.spec import Spec

POCKET = "pocket"


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "train", "train alone: no chain, no IPFS, no peers", run)
    home_option(parser)
    parser.add_argument("--policy", required=True, metavar="MODEL", help=POLICY_HELP)
    words = "a network's rules; without: those of the pocket policy, or of larger models where --base names another one"
    parser.add_argument("--spec", type=Path, metavar="FILE", help=words)
    base_option(parser)
    lora_option(parser)
    device_option(parser)
    parser.add_argument("--rounds", type=int, default=100, help="in all, earlier runs included (%(default)s)")
    parser.add_argument("--i", type=int, default=8, help="groups per round (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: torch's own choice (%(default)s)")
    engine_option(parser)


def run(options: argparse.Namespace) -> int:
    """Raises SapoError where the spec does not have the base, or the folder is another one."""
    from sapo_client.generation.factory import check_engine, make_engine
    from sapo_client.policy.hub import model_folder
    from sapo_client.state import home as layout
    from sapo_client.state.settings import GenerationSettings, PolicySettings
    from sapo_verifier.bases import base_in, find_base
    from sapo_verifier.networks import read_spec

    folder, generation = model_folder(options.policy), GenerationSettings(engine=options.engine)
    check_engine(generation)
    spec = _default_spec(folder, options.base or POCKET) if options.spec is None else read_spec(options.spec)
    base = base_in(spec, folder, options.base)
    if options.base is not None:  # named, and not found by its files
        find_base(base, [folder])
    try:
        import torch

        from sapo_client.node.silo import train
        from sapo_client.policy.policy import Policy
        from sapo_client.training.sapo import TrainConfig
    except ModuleNotFoundError as error:
        raise node_extra_missing(error) from error
    if options.threads:
        torch.set_num_threads(options.threads)
    how = PolicySettings(folder=folder, base=base.id, lora_rank=options.lora_rank).options(options.seed)
    policy = Policy.load(folder, base, device=options.device, options=how)
    config = TrainConfig(own_groups=options.i, external_groups=0)
    home = options.home.expanduser()
    with make_engine(policy, spec, generation, threads=options.threads, scratch=home / layout.ENGINE) as engine:
        train(home, spec, policy, config, rounds=options.rounds, seed=options.seed, engine=engine)
    return 0


def _default_spec(folder: Path, base_id: str) -> "Spec":
    """The pocket policy's rules for it, and those of larger models for any other base."""
    from sapo_verifier.networks import chat_base, models_spec, pocket_spec

    return pocket_spec(folder) if base_id == POCKET else models_spec([chat_base(folder, base_id)])
