"""What can be chosen for a run of the devnet."""

from dataclasses import dataclass, field
from pathlib import Path

from sapo_client.training.rules import DEFAULT_EXTERNAL


@dataclass
class Options:
    """What `scripts/devnet --help` lists, under the same names. None: what fits the policies."""

    nodes: int = 4
    rounds: int = 30
    i: int | None = None
    j: int | None = None
    external: str = DEFAULT_EXTERNAL
    seed: int = 0
    policy: str = "pocket"
    beacon: str = "blockhash"
    lora_rank: int | None = None
    engine: str = "torch"
    pocket_steps: int | None = None
    threads: int = 1
    spot: int | None = None  # the spec's
    round_limit: float | None = None  # seconds
    attack: list[str] = field(default_factory=list)
    kill: tuple[int, int] | None = None  # node, round
    with_daemon: bool = False
    keep: bool = False
    serve: bool = False
    round_seconds: float = 30.0
    data: Path | None = None
