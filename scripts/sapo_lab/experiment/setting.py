"""What an experiment is: every choice that its numbers follow from, and nothing else."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from sapo_client.training.rules import DEFAULT_EXTERNAL, External

Draw = Literal["uniform", "balanced", "weakest", "closest", "fill"]
Other = Literal["none", "tokenizer", "smaller"]
Checks = Literal["off", "documents", "model"]
Poison = Literal["none", "false-rewards", "solver"]

HELD_OUT = 40  # tasks of each dataset


@dataclass(frozen=True)
class Setting:
    """One run.

    generate: groups that a node generates per round; 0: as many as it trains on (I). ages: of the external groups on
    offer, in rounds; the product's pool is (1, 2), 0 is the same round. once: a node trains on an external group once
    at most; otherwise as often as it is drawn. checks: what a batch must pass before anybody learns from it: nothing,
    every check but `policy`, or all of them. specialists: datasets that each node knows; 0: all. leave: the round
    before which half of the nodes vanish; 0: none does. other: what is different about every second node's policy.
    spot: completions of a batch that a node recomputes, whose p_theirs it knows; 0: all.
    """

    own_groups: int = 4  # I
    external_groups: int = 4  # J
    external: External = DEFAULT_EXTERNAL
    generate: int = 0
    nodes: int = 8
    rounds: int = 40
    seed: int = 0
    learning_rate: float = 3e-5
    right_format: float = 0.01  # of the policy that all nodes start from: see sparse.py
    ages: tuple[int, ...] = (1, 2)
    once: bool = False
    own_as_external: bool = False  # own groups are trained on by the external rule
    draw: Draw = "uniform"  # how the external groups are drawn from those on offer
    checks: Checks = "documents"
    poison: Poison = "none"
    poisoners: int = 0  # of the nodes; they only publish
    specialists: int = 0
    leave: int = 0
    other: Other = "none"
    spot: int = 0

    @property
    def slots(self) -> int:
        return self.generate or self.own_groups

    def to_json(self) -> dict[str, Any]:
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Setting":
        return cls(**{**document, "ages": tuple(document["ages"])})

    def short(self) -> str:
        """What differs from the defaults, the seed left out, as a file's name."""
        default = Setting()
        parts = [f"i{self.own_groups}", f"j{self.external_groups}", self.external]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in _NAMED and value != getattr(default, field.name):
                parts.append(f"{field.name}={'.'.join(map(str, value)) if isinstance(value, tuple) else value}")
        return "-".join(parts)


_NAMED = {"own_groups", "external_groups", "external", "seed"}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
