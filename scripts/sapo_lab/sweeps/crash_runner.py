"""Runs the real `sapo` with one function wrapped, so that its process kills itself (SIGKILL) at that function's call.

Usage: crash_runner.py NAME WHEN CALL HOLDS ROUND sapo's arguments …

NAME is dotted, as the caller finds it; WHEN before or after; CALL counts from 1; HOLDS is a text that the arguments'
repr has to hold to be counted. Calls count from the moment that the node's loop plays ROUND (-1: from the start).
"""

import functools
import importlib
import os
import signal
import sys
from typing import Any


class Trap:
    """Counts the calls of one function, and ends the process at the one that was asked for."""

    def __init__(self, when: str, call: int, holds: str, *, armed: bool) -> None:
        self._when, self._left, self._holds = when, call, holds
        self.armed = armed

    def around(self, function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            hit = self._hit(args, kwargs)
            if hit and self._when == "before":
                die()
            result = function(*args, **kwargs)
            if hit:
                die()
            return result

        return wrapped

    def _hit(self, args: Any, kwargs: Any) -> bool:
        if not self.armed or self._holds not in repr((args, kwargs)):
            return False
        self._left -= 1
        return self._left == 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def owner_of(dotted: str) -> tuple[Any, str]:
    """The module or class that has the name, and the name in it."""
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[:cut])
        try:
            owner = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            continue
        for part in parts[cut:-1]:
            owner = getattr(owner, part)
        return owner, parts[-1]
    raise SystemExit(f"there is no {dotted}")


def main() -> int:
    dotted, when, call, holds, first, *arguments = sys.argv[1:]
    trap = Trap(when, int(call), holds, armed=int(first) < 0)
    owner, name = owner_of(dotted)
    setattr(owner, name, trap.around(getattr(owner, name)))

    from sapo_client.node.loop import Node

    play = Node._play

    def armed_from(self: Node, round_: int) -> None:
        trap.armed = trap.armed or round_ >= int(first)
        play(self, round_)

    Node._play = armed_from  # type: ignore[method-assign]

    from sapo_client.cli import main as sapo

    return sapo(arguments)


if __name__ == "__main__":
    sys.exit(main())
