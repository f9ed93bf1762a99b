"""`--help` of every command: instant, and without the heavy imports of what the command does."""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from sapo_client import cli
from sapo_devnet.checkout import ROOT
from sapo_verifier import cli as verify

HEAVY = ("torch", "transformers", "vllm", "web3", "aiohttp", "reasoning_gym", "numpy", "eth_account")
PROGRAMS = {"sapo": cli.PROGRAM, "sapo-verify": verify.PROGRAM}
MODULES = {"sapo": ["-m", "sapo_client"], "sapo-verify": ["-m", "sapo_verifier"]}
MOST_SECONDS = 0.5
TRIES = 5  # on a busy machine


def commands(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """The program itself, its commands and their steps."""
    yield name
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from commands(below, f"{name} {word}")


ALL = [command for name, program in PROGRAMS.items() for command in commands(program.parser(), name)]


def test_all_commands_are_found() -> None:
    assert {"sapo", "sapo run", "sapo network deploy", "sapo devnet up", "sapo-verify batch"} <= set(ALL)


@pytest.mark.parametrize("command", ALL)
def test_help_is_instant_and_loads_nothing_heavy(command: str) -> None:
    name, *words = command.split()
    times: list[float] = []
    while not times or (min(times) >= MOST_SECONDS and len(times) < TRIES):
        started = time.monotonic()
        asked = [sys.executable, "-X", "importtime", *MODULES[name], *words, "--help"]
        done = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT, check=True)
        times.append(time.monotonic() - started)
        assert done.stdout.startswith("usage: ")
    assert min(times) < MOST_SECONDS
    loaded = re.findall(r"\|\s+(\w+)$", done.stderr, re.MULTILINE)
    assert "argparse" in loaded, "the list of imports was understood"
    assert not set(HEAVY) & set(loaded)
