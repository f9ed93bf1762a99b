"""What `sapo run` refuses, looked at before anything heavy is imported: a wrong password, chain, folder or bond is told
in a moment, and not after a minute of loading."""

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_client.generation.factory import check_engine
from sapo_client.state import home as layout
from sapo_client.state.joining import refuse_too_many
from sapo_client.state.log_file import logging_to
from sapo_client.state.settings import Settings
from sapo_client.transactions.belongs import refuse_other_network
from sapo_verifier.errors import UnableError

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

    from sapo_verifier.bases import Bases
    from sapo_verifier.chain.reader import ChainReader
    from sapo_verifier.spec import BaseRule


@dataclass(frozen=True)
class Ready:
    """A home that is held by this process, and what its settings name, checked."""

    home: Path
    settings: Settings
    account: "LocalAccount"
    operator: str  # the key's address
    node: str  # the owner's
    endpoint: str  # where peers find this node's blocks
    reader: "ChainReader"
    base: "BaseRule"
    bases: "Bases"
    register: bool
    i_know: bool  # that nothing else uses the key, whatever it sent without this home


@contextmanager
def ready(
    home: Path,
    password_file: Path | None,
    *,
    register: bool,
    i_know: bool = False,
    changes: Mapping[str, Any] | None = None,
) -> Iterator[Ready]:
    """Everything that can be wrong without loading a model, in the order of its cost.

    register: the bond is to be locked if the node is not registered yet. i_know: see Ready. changes: settings,
    by section and name, that hold for this run instead of the home's. Raises SapoError with what to do.
    """
    settings = Settings.load(home)
    if changes:
        settings = settings.changed(changes, "the options")
    check_engine(settings.generation)
    if importlib.util.find_spec("torch") is None:
        raise UnableError("this installation has no torch: a node needs `pip install sapo-network[node]`")
    with layout.only_one(home), logging_to(home, settings.log):
        from sapo_client.duties.registration import refuse_unregistered, refuse_useless
        from sapo_verifier import keystore
        from sapo_verifier.bases import Bases, base_in
        from sapo_verifier.chain.deployment import Deployment
        from sapo_verifier.chain.reader import NodeState, open_chain
        from sapo_verifier.folders import check_supported

        endpoint = layout.public_endpoint(settings.ipfs, f"{home / 'node.toml'}: [ipfs] endpoint")
        settings.ipfs.credentials(home)
        deployment = Deployment.load(settings.chain.deployment)
        refuse_other_network(home, home / layout.OUTBOX, deployment)
        refuse_too_many(settings.sapo.own_groups, deployment.spec, str(home / "node.toml"))
        base = base_in(deployment.spec, settings.policy.folder, settings.policy.base)
        account = keystore.load(home / layout.KEYSTORE, keystore.read_password(password_file))
        operator = account.address.lower()
        node = settings.chain.owner or operator
        with open_chain(deployment, settings.chain.rpc_urls(home)) as reader:
            info = reader.node_of(node)
            if info.state in (NodeState.NONE, NodeState.WITHDRAWN):
                refuse_unregistered(reader, info, operator, register=register)
            else:
                refuse_useless(info, operator)
            bases = Bases([settings.policy.folder, *settings.audit.bases])
            check_supported(bases.folder(base))
            yield Ready(home, settings, account, operator, node, endpoint, reader, base, bases, register, i_know)
