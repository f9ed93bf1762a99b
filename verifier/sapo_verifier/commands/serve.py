"""`sapo-verify serve`: the pages, on localhost."""

import argparse

from sapo_verifier.commands.options import add_audit_options
from sapo_verifier.commands.program import Commands, add_parser

WORDS = "the auditor's pages, on localhost: every round, batch, token and payout, and what this machine finds of them"
PORT = 8600


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "serve", WORDS, run)
    add_audit_options(parser)
    words = "where to listen on 127.0.0.1; 0: a free one, which is printed (%(default)s)"
    parser.add_argument("--port", type=int, default=PORT, help=words)


def run(options: argparse.Namespace) -> int:
    """Until it is told to end (Ctrl-C, SIGTERM): exit status 0. 3 where the chain does not answer at the start."""
    from sapo_verifier.commands.tools import deployment_of, gateways_of, rpc_of
    from sapo_verifier.errors import UnableError

    try:
        from sapo_verifier.pages.app import make_app
        from sapo_verifier.pages.listening import listen
        from sapo_verifier.pages.site import Audited, Site
    except ModuleNotFoundError as error:
        words = f"this installation has no {error.name}, which the pages need: `pip install 'sapo-network[pages]'`"
        raise UnableError(words) from None
    audited = Audited(gateways_of(options), options.base_folder, options.model, options.allow_private)
    with Site(deployment_of(options), rpc_of(options), audited) as site:
        listen(make_app(site), options.port, lambda url: print(f"pages {url}", flush=True))
    return 0
