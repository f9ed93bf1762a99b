"""Whether an RPC's chain is the one that a deployment is on: its id, its block 0, and the block of the deployment."""

from typing import Any

from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainMismatch, ChainReset, ChainUnavailable, mask_url
from sapo_verifier.chain.rpc import QuietProvider, read_many


class Anchor:
    """Of one deployment. Remembers nothing but block 0's hash, which the deployment file does not have."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._genesis: bytes | None = None
        self._blocks: list[tuple[str, Any]] = [
            ("eth_getBlockByNumber", ["0x0", False]),
            ("eth_getBlockByNumber", [hex(deployment.block), False]),
        ]

    def height(self, provider: QuietProvider) -> int:
        """The latest block of an RPC whose chain is the deployment's. One request.

        Raises ChainMismatch or ChainReset for another chain, ChainUnavailable, and what `read_many` does.
        """
        questions = [("eth_chainId", []), ("eth_blockNumber", []), *self._blocks]
        chain_id, height, genesis, deployed = read_many(provider, questions)
        where = mask_url(provider.url)
        self.check_id(int(chain_id, 16), where)
        self._check_blocks(genesis, deployed, where)
        return int(height, 16)

    def check(self, provider: QuietProvider) -> None:
        """Raises ChainReset if the chain is no longer the one on which the contracts were deployed, ChainUnavailable,
        and what `read_many` does. One request."""
        genesis, deployed = read_many(provider, self._blocks)
        self._check_blocks(genesis, deployed, mask_url(provider.url))

    def check_id(self, chain_id: int, where: str) -> None:
        """Raises ChainMismatch for another chain's id."""
        if chain_id != self._deployment.chain_id:
            raise ChainMismatch(
                f"{where} is chain {chain_id}, but the deployment file is of chain {self._deployment.chain_id}; "
                "point --rpc at the right chain, or --deployment at the right file"
            )

    def _check_blocks(self, genesis: Any, deployed: Any, where: str) -> None:
        block = self._deployment.block
        if genesis is None:
            raise ChainUnavailable(f"the chain's RPC at {where} does not know block 0; use another RPC")
        same_genesis = self._genesis is None or _hash(genesis) == self._genesis
        if deployed is None and self._genesis is not None and same_genesis:
            raise ChainUnavailable(
                f"the chain's RPC at {where} has fallen behind: it does not know block {block}, which it knew "
                "before; try again, and use another RPC if it stays so"
            )
        if deployed is None:
            raise ChainReset(
                f"the chain at {where} has not reached block {block}, in which this network was deployed: was it "
                "reset, or is its node still syncing? Wait, deploy again, or point --deployment at the right file"
            )
        if _hash(deployed) != self._deployment.block_hash or not same_genesis:
            raise ChainReset(
                f"the chain at {where} is not the one this network was deployed on: its block {block} is another. "
                "It was reset (or reorganized that far); deploy again, or point --deployment at the right file"
            )
        self._genesis = _hash(genesis)


def _hash(block: Any) -> bytes:
    return bytes.fromhex(block["hash"].removeprefix("0x"))
