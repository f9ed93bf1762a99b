"""`sapo set-endpoint`: where peers find this node's blocks from now on, on chain and in node.toml."""

import argparse
from typing import TYPE_CHECKING

from sapo_client.commands.asking import Asking, add_step, ask
from sapo_verifier.commands.program import Commands

if TYPE_CHECKING:
    from sapo_client.duties.steps import Step
    from sapo_verifier.chain.reader import ChainReader, NodeInfo


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_step(commands, "set-endpoint", "change where peers find this node's blocks", run)
    words = "where they reach its gateway, such as /dns4/node.example.org/tcp/443/https (as node.toml says)"
    parser.add_argument("endpoint", nargs="?", metavar="MULTIADDR", help=words)


def run(options: argparse.Namespace) -> int:
    """See asking.ask. The setting is changed, too. Raises EndpointError for what peers would refuse."""

    def step(asking: Asking, reader: "ChainReader", info: "NodeInfo") -> "Step":
        from sapo_client.duties.steps import set_endpoint
        from sapo_client.state.home import public_endpoint

        given = {} if options.endpoint is None else {"endpoint": options.endpoint}
        ipfs = asking.settings.ipfs.model_copy(update=given)
        return set_endpoint(public_endpoint(ipfs, "MULTIADDR"))

    def write(asking: Asking) -> None:
        from sapo_client.state.settings_file import change_setting

        if options.endpoint is not None:
            change_setting(asking.home, "ipfs", "endpoint", options.endpoint)

    return ask(options, step, before=write)
