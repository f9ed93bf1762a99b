"""What `sapo` and `sapo-verify` share: a command is the module of its name, an error is words and an exit status."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from sapo_verifier.errors import SapoError, UnableError, UsageError
from sapo_verifier.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class WrongUse(UsageError):  # noqa: N818
    """What argparse refuses. usage: the usage line of the command."""

    def __init__(self, prog: str, usage: str, words: str) -> None:
        super().__init__(words)
        self.prog = prog
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """Raises WrongUse instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise WrongUse(self.prog, self.format_usage(), message)


@dataclass(frozen=True)
class Program:
    """A program whose commands are modules of `package`, each with `add_command(commands)` and `run(options)`; a hyphen
    in a name is an underscore in the module's.

    around: entered while a command runs, to put errors of other kinds into words. group: of entry points, each a
    further command by the name and the module of whoever brings it.
    """

    name: str
    description: str
    package: str
    commands: tuple[str, ...]
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    group: str = ""

    def parser(self, arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
        """With the command that `arguments` begin with, or with all; the others are not even imported."""
        made = Parser(prog=self.name, description=self.description)
        made.add_argument("--version", action="version", version=f"{self.name} {__version__}")
        commands = made.add_subparsers(title="commands", metavar="COMMAND", required=True)
        asked = [name for name in arguments[:1] if name in self.commands]
        for name in asked or self.commands:
            import_module(f"{self.package}.{name.replace('-', '_')}").add_command(commands)
        if not asked and self.group:
            from importlib.metadata import entry_points  # looks at all that is installed: not for every command

            for brought in entry_points(group=self.group):
                if not arguments or arguments[0] in (brought.name, "-h", "--help"):
                    _add_brought(commands, brought, needed=[*arguments[:1]] == [brought.name])
        return made

    def main(self, argv: Sequence[str] | None = None) -> int:
        """The exit status: 0, what the command says, or that of the SapoError that it raised (errors.py)."""
        arguments = list(sys.argv[1:] if argv is None else argv)
        try:
            options = self.parser(arguments).parse_args(arguments)
        except WrongUse as error:
            print(f"{error.usage}{error.prog}: error: {error}", file=sys.stderr)
            return _status(error, as_json="--json" in arguments)
        except SapoError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return _status(error, as_json="--json" in arguments)
        try:
            with self.around():
                return int(options.command(options))
        except SapoError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return _status(error, as_json=getattr(options, "json", False))


def _add_brought(commands: "argparse._SubParsersAction[Parser]", brought: "EntryPoint", *, needed: bool) -> None:
    """needed: whether it was asked for; else one that is not installed whole is left out."""
    try:
        module = brought.load()
    except ModuleNotFoundError as error:
        if needed:
            package = f"sapo-network[{brought.name}]"
            words = f"this installation has no {error.name}, which `{brought.name}` needs: `pip install '{package}'`"
            raise UnableError(words) from None
        return
    module.add_command(commands)


def _status(error: SapoError, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"error": str(error), "status": error.exit_status}))
    return error.exit_status


def add_parser(
    commands: Commands, name: str, words: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A command that `run` does. words: what it is for, without a full stop."""
    parser = commands.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
    parser.set_defaults(command=run)
    return parser
