"""The options that several commands of `sapo` have, and what they say alike."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sapo_verifier.commands.options import add_rpc_options
from sapo_verifier.errors import UnableError

DEFAULT_HOME = Path("~/.sapo")
POLICY_HELP = "the model to train: a folder, or a name on the Hugging Face hub, which is downloaded then"
BASE_HELP = "the model's id in the network's spec"


def home_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--home", type=Path, default=DEFAULT_HOME, help="the node's folder (%(default)s)")


def chain_options(parser: argparse.ArgumentParser) -> None:
    """What `rpcs_of` reads."""
    add_rpc_options(parser, "as the settings say")


def rpcs_of(options: argparse.Namespace) -> list[str] | None:
    """The RPCs that the options name; None: those of the settings. Raises UsageError for a file that cannot be."""
    from sapo_verifier.chain.urls import rpc_urls

    return rpc_urls(options.rpc, options.rpc_file) if options.rpc or options.rpc_file else None


def json_option(parser: argparse.ArgumentParser, words: str = "for programs") -> None:
    parser.add_argument("--json", action="store_true", help=words)


def password_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--password-file", type=Path, metavar="FILE", help="of the key; readable by you only. Without: asked for"
    )


def base_option(parser: argparse.ArgumentParser, words: str = BASE_HELP + " (found by the files' digest)") -> None:
    parser.add_argument("--base", metavar="ID", help=words)


def lora_option(parser: argparse.ArgumentParser, default: int | None = 0) -> None:
    words = "train adapters of this rank instead of all weights; 0: all weights"
    words += ", as is the default" if default == 0 else " (as the settings say)"
    parser.add_argument("--lora-rank", type=number_from(0), default=default, metavar="N", help=words)


def device_option(parser: argparse.ArgumentParser) -> None:
    words = "where training, records and checks run: cpu, cuda or cuda:N (%(default)s)"
    parser.add_argument("--device", default="cpu", help=words)


def engine_option(
    parser: argparse.ArgumentParser, default: str | None = "torch", words: str = "what generates (%(default)s)"
) -> None:
    parser.add_argument("--engine", choices=("torch", "vllm"), default=default, help=words)


def wait_option(parser: argparse.ArgumentParser) -> None:
    words = "for how long to wait until it is mined, or refused; 0: it is enough that it is stored (%(default)s)"
    parser.add_argument("--wait", type=seconds_from(0), default=60.0, metavar="SECONDS", help=words)


def seconds_from(least: float) -> Callable[[str], float]:
    """A type for argparse: a duration, `least` or more."""

    def seconds(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = -1.0
        if not least <= found <= 1e6:
            raise argparse.ArgumentTypeError(f"{text} is no duration: seconds from {least:g} to a million")
        return found

    return seconds


def address(text: str) -> str:
    """A type for argparse: an account's address, lower case. One in mixed case has to have the right checksum."""
    if not re.fullmatch(r"0x[0-9a-fA-F]{40}", text):
        raise argparse.ArgumentTypeError(f"{text} is no address: 0x and 40 hexadecimal digits")
    digits = text[2:]
    if digits not in (digits.lower(), digits.upper()):
        from eth_utils.address import is_checksum_address

        if not is_checksum_address(text):
            raise argparse.ArgumentTypeError(f"{text} is mistyped: its upper and lower case do not fit its digits")
    return text.lower()


def coins(text: str) -> int:
    """A type for argparse: an amount in coins, as wei."""
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,18})?", text):
        raise argparse.ArgumentTypeError(f"{text} is no amount: coins such as 0.02, with at most 18 decimal places")
    whole, _, part = text.partition(".")
    return int(whole) * 10**18 + int(part.ljust(18, "0"))


def set_option(parser: argparse.ArgumentParser, words: str) -> None:
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help=words)


def changes_of(options: argparse.Namespace) -> dict[str, Any]:
    """What `--policy` and `--set` say instead of the settings. Raises UsageError."""
    from sapo_client.policy.hub import model_folder
    from sapo_client.state.assignments import assigned, merged

    policy = {} if options.policy is None else {"policy": {"folder": str(model_folder(options.policy))}}
    return merged(policy, assigned(options.set), "the options")


def number_from(least: int) -> Callable[[str], int]:
    """A type for argparse: a whole number, `least` or more."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not a number from {least} on")
        return int(text)

    return number


def node_extra_missing(error: ModuleNotFoundError) -> UnableError:
    """What to install where a library of the node's is not here."""
    return UnableError(f"this installation has no {error.name}: a node needs `pip install sapo-network[node]`")
