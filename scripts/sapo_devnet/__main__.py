"""`scripts/devnet`: start everything, play the rounds, show what happened, stop everything.

Nothing heavy is imported before the options are read.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sapo_client.training.rules import EXTERNAL_RULES
from sapo_devnet.adversaries.names import ATTACKS
from sapo_devnet.options import Options
from sapo_verifier.errors import SapoError, UsageError


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 as it should be, 1 not, 130 interrupted; where it could not be played that of the error."""
    options = read(argv)
    if options.serve:
        return _serve(options)
    from sapo_devnet.run import ENDS, Run

    for number in ENDS:
        signal.signal(number, _interrupt)
    devnet = Run(options)
    try:
        devnet.start()
        devnet.play()
        return devnet.finish()
    except KeyboardInterrupt:
        print("\nstopping …", flush=True)
        return 130
    except SapoError as error:
        print(f"devnet: {error}", file=sys.stderr)
        return error.exit_status
    finally:
        devnet.stop()


def _serve(options: Options) -> int:
    """As `sapo devnet up` does (service.py)."""
    try:
        if options.attack or options.kill or options.spot or options.policy == "smollm2" or "," in options.policy:
            raise UsageError(
                "--serve plays with honest nodes and one pocket policy: leave out --attack, --kill, --spot, smollm2"
            )
        from sapo_devnet.checkout import ROOT
        from sapo_devnet.command import show
        from sapo_devnet.policies import find_policies
        from sapo_devnet.service import serve
        from sapo_devnet.state import folder_of

        (policy,) = find_policies(ROOT, options.policy, options.pocket_steps, options.lora_rank)
        asked = argparse.Namespace(
            nodes=options.nodes,
            formula=0,
            rounds=None,
            round_seconds=options.round_seconds,
            policy=policy.folder,
            port=0,
        )
        return serve(folder_of(options.data), asked, partial(show, as_json=False))
    except SapoError as error:
        print(f"devnet: {error}", file=sys.stderr)
        return error.exit_status


def read(argv: Sequence[str] | None) -> Options:
    return Options(**vars(_parser().parse_args(argv)))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/devnet", description="A chain, IPFS daemons and nodes on this machine that learn from each other."
    )
    parser.add_argument("--nodes", type=int, metavar="N", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, metavar="N", help="with batches (%(default)s)")
    parser.add_argument("--i", type=int, help="own groups per node and round (4; with smollm2 2)")
    parser.add_argument("--j", type=int, help="other nodes' groups (as --i)")
    words = "what other nodes' tokens count (%(default)s)"
    parser.add_argument("--external", choices=EXTERNAL_RULES, help=words)
    parser.add_argument("--seed", type=int, help="of keys' order and sampling (%(default)s)")
    parser.add_argument(
        "--policy",
        metavar="A,B,…",
        help="pocket, smollm2, or a pocket policy's folder; nodes take them in turn (%(default)s)",
    )
    words = "where the rounds' randomness is from; drand: one of the devnet's own (%(default)s)"
    parser.add_argument("--beacon", choices=("blockhash", "drand"), help=words)
    parser.add_argument("--lora-rank", type=int, metavar="N", help="of smollm2's adapters (16)")
    words = "what generates (%(default)s); vllm: for smollm2, as it has no kernel for a pocket policy's heads on a CPU"
    parser.add_argument("--engine", choices=("torch", "vllm"), help=words)
    parser.add_argument("--pocket-steps", type=int, metavar="N", help="a quick, worse pocket policy, for tests")
    words = "completions of a batch that each voter recomputes (all)"
    parser.add_argument("--spot", type=int, choices=range(1, 257), metavar="N", help=words)
    parser.add_argument("--threads", type=int, help="CPU threads per node (%(default)s)")
    parser.add_argument("--round-limit", type=float, metavar="S", help="a round ends then (300; with smollm2 1200)")
    parser.add_argument(
        "--attack",
        type=_attacks,
        metavar="A,B,…",
        help="one more node for each; the devnet then plays until all is final, and tells who was paid what: "
        + ", ".join(sorted(ATTACKS)),
    )
    words = "kill -9 node NODE in round ROUND and start it again"
    parser.add_argument("--kill", type=_kill, metavar="NODE:ROUND", help=words)
    parser.add_argument("--with-daemon", action="store_true", help="--kill takes the node's IPFS daemon along")
    parser.add_argument("--keep", action="store_true", help="leave it running at the end and print the URLs")
    words = "play on until Ctrl-C, rounds by the clock, and print what a stranger's node needs to join (docs/devnet.md)"
    parser.add_argument("--serve", action="store_true", help=words)
    words = "of a round with --serve (%(default)s)"
    parser.add_argument("--round-seconds", type=float, metavar="S", help=words)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where to keep logs and homes (.devnet/<time>)")
    parser.set_defaults(**vars(Options()))
    return parser


def _attacks(text: str) -> list[str]:
    names = text.split(",")
    if unknown := sorted(set(names) - ATTACKS.keys()):
        raise argparse.ArgumentTypeError(f"no such attack: {', '.join(unknown)}")
    return names


def _kill(text: str) -> tuple[int, int]:
    node, _, round_ = text.partition(":")
    if not (node.isdecimal() and round_.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text} is not NODE:ROUND, two numbers from 0 on")
    return int(node), int(round_)


if __name__ == "__main__":
    sys.exit(main())
