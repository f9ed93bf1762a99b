"""A small network on a real Anvil, for tests."""

from dataclasses import dataclass, field
from typing import Any

from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.anvil import Anvil
from sapo_devnet.testkit.rules import BOND, MONEY
from sapo_verifier.chain.deploying import deploy
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.rpc import connect_for_sending
from sapo_verifier.networks import versions_of
from sapo_verifier.protocol import VERSION
from sapo_verifier.spec import Spec, TaskRule

__all__ = ["BOND", "Network", "deploy_on", "small_spec"]


TASKS = [TaskRule(name="basic_arithmetic", config={}, weight=1)]


def small_spec(**changes: Any) -> Spec:
    """Rounds of 20 blocks, two slots of four completions."""
    document: dict[str, Any] = {
        "v": VERSION,
        "chain": {
            "round_blocks": 20,
            "draws": 4,
            "min_accepts": 2,
            "min_rejects": 2,
            "exit_rounds": 9,
            **MONEY,
        },
        "group_size": 4,
        "max_slots": 2,
        "max_new_tokens": 16,
        "max_prompt_bytes": 64,
        "pool_rounds": 2,
        "spot": 256,
        "tasks": [rule.model_dump(mode="json") for rule in TASKS],
        "answer": "brackets",
        "versions": versions_of(TASKS).model_dump(mode="json"),
        "bases": [
            {
                "id": "pocket",
                "digest": "0x" + "11" * 32,
                "vocab": 128,
                "eos": [1],
                "context": 256,
                "template": "compact",
                "max_token_bytes": 24,
                "max_adapter_bytes": 1 << 20,
                "max_rank": 0,
            }
        ],
    }
    return Spec.model_validate(document | changes)


@dataclass
class Network:
    """Anvil with the contracts deployed, before round 0. Blocks are made by transactions and by `chain.mine`."""

    chain: Anvil
    deployment: Deployment
    readers: list[ChainReader] = field(default_factory=list)

    @property
    def spec(self) -> Spec:
        return self.deployment.spec

    def reader(self, url: str | None = None) -> ChainReader:
        """Closed with the fixture."""
        made = ChainReader(url or self.chain.url, self.deployment)
        self.readers.append(made)
        return made

    def mine_to_round(self, round_: int) -> None:
        """Until the latest block is the round's first one: from the next block on its beacon can be captured."""
        self.chain.mine_to(self.deployment.first_block + round_ * self.spec.chain.round_blocks)

    def close(self) -> None:
        for reader in self.readers:
            reader.close()


def deploy_on(chain: Anvil, spec: Spec | None = None, *, first_block: int | None = None) -> Network:
    """Deploys with account 0. The chain has to make blocks by itself."""
    w3 = connect_for_sending(chain.url)
    made = deploy(
        w3, chain.account(0), spec or small_spec(), artifacts=ROOT / "out", first_block=first_block, timeout=30
    )
    return Network(chain, made)
