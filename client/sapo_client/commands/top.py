"""`sapo top`: a node at a glance, again and again; or its curves as one page."""

import argparse
import shutil
import sys
import time
from pathlib import Path

from sapo_client.commands.options import chain_options, home_option, rpcs_of, seconds_from
from sapo_verifier.commands.program import Commands, add_parser
from sapo_verifier.errors import UnableError, UsageError

WORDS = "pay, time left, runway, curves and phases, refreshed; or as one HTML page"
CLEAR = "\x1b[H\x1b[J"
LEAST_SECONDS = 1.0


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "top", WORDS, run)
    home_option(parser)
    parser.add_argument("--once", action="store_true", help="print one page and end")
    parser.add_argument(
        "--seconds", type=seconds_from(LEAST_SECONDS), default=10.0, metavar="N", help="between two pages (%(default)s)"
    )
    words = "write the curves to this file, as one page that needs nothing else, and end; the chain is not asked"
    parser.add_argument("--html", type=Path, metavar="FILE", help=words)
    chain_options(parser)


def run(options: argparse.Namespace) -> int:
    """Raises SapoError where nothing can be told: no home, or the node never ran."""
    home = options.home.expanduser()
    if options.html is not None:
        return _write(home, options.html.expanduser())
    return _show(home, options)


def _write(home: Path, path: Path) -> int:
    from sapo_client.node.observing.page import page
    from sapo_client.state.report import read_rounds, read_status
    from sapo_verifier.files import write_file

    status = read_status(home)
    if status is None:
        raise UnableError(f"the node in {home} never ran; start it with `sapo run --home {home}`")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder; make it first, or name another file")
    text = page(status, read_rounds(home), time.time())
    write_file(path, text.encode(), mode=0o644, aside=path.with_name(path.name + ".tmp"))
    print(path)
    return 0


def _show(home: Path, options: argparse.Namespace) -> int:
    from sapo_client.node.observing.condition import Look
    from sapo_client.node.observing.screen import Seen, screen
    from sapo_client.state.report import read_rounds
    from sapo_client.state.settings import Settings
    from sapo_verifier import net

    look = Look(home, Settings.load(home), rpcs_of(options), leave=net.abort_all)  # nobody waits for what is late
    while True:
        seen = Seen(look.condition(), look.numbers, read_rounds(home))
        lines = screen(seen, shutil.get_terminal_size((100, 40)).columns)
        alone = options.once or not sys.stdout.isatty()
        print(("" if alone else CLEAR) + "\n".join(lines), flush=True)
        if options.once:
            return 0
        try:
            time.sleep(options.seconds)
        except KeyboardInterrupt:
            return 0
        if alone:
            print()
