"""What `sapo init` looks at on the chain, and what it says is to be done next: what to send where, what to back up."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainError, ChainUnavailable, coins
from sapo_verifier.chain.reader import ChainReader, open_chain
from sapo_verifier.keystore import BACKUP

if TYPE_CHECKING:
    from sapo_client.state.settings import Settings

RPC_SECONDS = 5.0  # for one answer; `sapo init` waits for no chain
UNKNOWN = "`sapo doctor` looks again, and `sapo run` says what to send"


@contextmanager
def chain_if_there(deployment: Deployment, urls: Sequence[str]) -> Iterator[tuple[ChainReader | None, str]]:
    """The chain, or why it does not answer, which is no reason to make no home. Raises ChainMismatch where another
    chain answers, or its contracts are not the deployment's."""
    with ExitStack() as stack:
        try:
            reader = stack.enter_context(open_chain(deployment, urls, timeout=RPC_SECONDS, tries=1))
        except ChainUnavailable as error:
            yield None, f"not checked against the chain: {error}; {UNKNOWN}"
            return
        yield reader, f"chain {deployment.chain_id}: its contracts and spec are those of the deployment"


def next_steps(reader: ChainReader | None, said: str, home: Path, settings: "Settings", key: str) -> list[str]:
    """Sentences. said: of `chain_if_there`; key: the address of the home's key."""
    from sapo_client.node.checkup import how_to_register
    from sapo_client.state.home import KEYSTORE
    from sapo_verifier.chain.reader import NodeState

    node = settings.chain.owner or key
    todo = f"then `sapo run --home {home} --register`"
    if reader is not None:
        try:
            info = reader.node_of(node)
            if info.state in (NodeState.NONE, NodeState.WITHDRAWN):
                todo = how_to_register(reader, node, key)
            else:
                todo = f"node {node} is {info.state.value}, with {coins(info.bond)} coins of bond"
        except ChainError as error:
            todo = f"{error}; {UNKNOWN}"
    endpoint = settings.ipfs.endpoint or settings.ipfs.gateway
    return [
        said,
        f"next: {todo}",
        f"peers will fetch this node's blocks from {endpoint}: `sapo doctor --home {home}` tries it, and all else",
        f"{home / KEYSTORE}: {BACKUP}",
    ]
