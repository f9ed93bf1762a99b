"""`sapo ipfs`: the embedded IPFS daemon by itself."""

import argparse

from sapo_verifier.commands.program import Commands, add_parser


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    from sapo_verifier.ipfs.daemon.serve import add_options

    add_options(
        add_parser(commands, "ipfs", "the embedded IPFS daemon by itself: keep blocks on disk, serve them", run)
    )


def run(options: argparse.Namespace) -> int:
    """Raises SapoError if it cannot start."""
    from sapo_verifier.ipfs.daemon.serve import serve

    return serve(options)
