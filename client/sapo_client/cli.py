"""The `sapo` command. Everything heavy is imported by the command that needs it, so that --help is instant."""

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sapo_client.state import logs
from sapo_client.state.sqlite import disk_failure
from sapo_verifier.commands.program import Program
from sapo_verifier.errors import UnableError


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 what was asked about is bad, 2 wrong usage, 3 it could not be done now (all in words)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] != ["ipfs"]:  # the daemon says nothing of what it serves
        logs.begin()
    return PROGRAM.main(arguments)


@contextmanager
def _disk_in_words() -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        words = disk_failure(error)
        if words is None:
            raise
        raise UnableError(words) from error


PROGRAM = Program(
    name="sapo",
    description="Run a node of a SAPO network.",
    package="sapo_client.commands",
    commands=(
        *("init", "run", "train", "bench", "status", "top", "doctor", "claim", "network", "ipfs"),
        *("register", "pause", "resume", "top-up", "set-endpoint", "set-operator", "exit", "withdraw"),
        *("move", "restore"),
    ),
    around=_disk_in_words,
    group="sapo.commands",
)
