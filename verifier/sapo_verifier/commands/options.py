"""The options of every command that reads the chain, fetches blocks and checks them."""

import argparse
from pathlib import Path


def add_rpc_options(parser: argparse.ArgumentParser, default: str = "http://127.0.0.1:8545") -> None:
    """What `urls.rpc_urls` takes. default: what is asked where neither is given, in words."""
    words = f"the chain's RPC; repeat to name others, which are asked where it fails ({default})"
    parser.add_argument("--rpc", action="append", metavar="URL", help=words)
    words = "more of them, one a line, readable by you only: for URLs with a key in them"
    parser.add_argument("--rpc-file", type=Path, metavar="FILE", help=words)


def add_chain_options(parser: argparse.ArgumentParser) -> None:
    """What `tools.chain_of` reads."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--deployment", type=Path, default=Path("deployment.json"), metavar="FILE", help="(%(default)s)")
    words = "the network's file instead: its deployment, its RPCs after yours, its gateways"
    which.add_argument("--network", type=Path, metavar="FILE", help=words)
    add_rpc_options(parser)
    parser.add_argument("--json", action="store_true", help="for programs")


def add_audit_options(parser: argparse.ArgumentParser) -> None:
    """What `tools.chain_of` and `tools.verifier_of` read."""
    add_chain_options(parser)
    parser.add_argument(
        "--gateway", action="append", default=[], metavar="MULTIADDR", help="ask here too, after the producer"
    )
    words = "a base's files, for its tokenizer; may be given several times"
    parser.add_argument("--base-folder", type=Path, action="append", default=[], metavar="FOLDER", help=words)
    words = "recompute the producer's probabilities from its weights, which are fetched; needs torch and --base-folder"
    parser.add_argument("--model", action="store_true", help=words)
    parser.add_argument("--allow-private", action="store_true", help="endpoints may be on private addresses (devnets)")


def add_strict_option(parser: argparse.ArgumentParser) -> None:
    """What `exit_status` of a report takes."""
    words = "exit with 1 also for batches that are bad and were rightly stopped"
    parser.add_argument("--strict", action="store_true", help=words)


def number(text: str) -> int:
    """An index or a round. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"{text} is no index and no round: a number from 0 on")
    return int(text)
