"""What `sapo devnet up --detach` starts: a devnet in a session of its own.

It ends if its standard input does before somebody has written "ready" into it, for then nobody waits for it any more.
"""

import argparse
import contextlib
import os
import signal
import sys
import threading
from functools import partial

from sapo_devnet.command import add_options, folder_option, show
from sapo_devnet.service import serve
from sapo_devnet.state import LOG, folder_of
from sapo_verifier.errors import UNABLE, SapoError


def _end_with_who_waits() -> None:
    """SIGTERM to this process if its standard input ends before "ready" was written into it."""

    def wait() -> None:
        if not sys.stdin.readline():
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sapo_devnet.detached", description=f"Writes what it says to {LOG}."
    )
    folder_option(parser)
    add_options(parser)
    options = parser.parse_args()
    _end_with_who_waits()
    try:
        return serve(folder_of(options.folder), options, partial(show, as_json=False))
    except (SapoError, OSError) as error:
        with contextlib.suppress(OSError):  # a full disk, which takes no log either: who waits looks for that
            print(f"devnet: {error}", file=sys.stderr)
        return error.exit_status if isinstance(error, SapoError) else UNABLE


if __name__ == "__main__":
    sys.exit(main())
