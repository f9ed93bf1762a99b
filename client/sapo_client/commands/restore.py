"""`sapo restore`: a home from a backup that has no outbox, or an old one; first it says what is lost."""

import argparse
from pathlib import Path

from sapo_client.commands.options import POLICY_HELP, chain_options, changes_of, home_option, rpcs_of, set_option
from sapo_verifier.commands.program import Commands, add_parser


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "restore", "a home from a backup, where the old one is lost", run)
    words = "the backup: keystore.json and node.toml at least, and whatever else of the old home there is"
    parser.add_argument("--from", dest="source", type=Path, required=True, metavar="FOLDER", help=words)
    home_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say what is lost, and make nothing")
    words = "the network's deployment.json (that of the backup, or where its settings say)"
    parser.add_argument("--deployment", type=Path, metavar="FILE", help=words)
    parser.add_argument("--policy", metavar="MODEL", help="instead of the settings' one: " + POLICY_HELP)
    set_option(parser, "any other setting that differs here, written into node.toml; may be given several times")
    chain_options(parser)


def run(options: argparse.Namespace) -> int:
    """Raises SapoError in words; nothing is made then."""
    from sapo_client.node.restoring import restore

    home = options.home.expanduser()
    source, rpcs = options.source.expanduser(), rpcs_of(options)
    restore(source, home, changes_of(options), rpcs, deployment=options.deployment, dry_run=options.dry_run, say=print)
    if options.dry_run:
        print("nothing was made: this was --dry-run")
    else:
        print(f"made {home}; see to it that the old node never starts again, then: sapo run --home {home}")
    return 0
