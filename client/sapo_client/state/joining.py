"""What a home takes from a network file, so that the file may go; and settings that a network's rules do not allow."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_verifier.errors import UsageError

if TYPE_CHECKING:
    from sapo_verifier.network_file import NetworkFile
    from sapo_verifier.spec import Spec

DEPLOYMENT = "deployment.json"
NETWORK = "network.toml"
OWN_GROUPS = 4  # where nobody says how many


def chain_settings(network: "NetworkFile") -> dict[str, Any]:
    """What stands under [chain] of a home that has taken the network: RPCs of its own come before the public ones."""
    return {"deployment": Path(DEPLOYMENT), "public_rpc": network.rpc, "drand_relays": network.drand_relays}


def take(home: Path, network: "NetworkFile") -> None:
    """Into the home, whole files over what a start that failed may have left."""
    network.deployment.save(home / DEPLOYMENT)
    network.save(home / NETWORK)


def policy_of(network: "NetworkFile | None", name: str) -> str:
    """Where a policy comes from: `name` itself, or the network's own place for the base of that name."""
    return name if network is None else network.bases.get(name, name)


def own_groups(asked: int | None, spec: "Spec") -> int:
    """`asked`, or what is usual as far as the network's rules allow it."""
    return min(OWN_GROUPS, spec.max_slots) if asked is None else asked


def refuse_too_many(groups: int, spec: "Spec", where: str) -> None:
    """Raises UsageError for more own groups than a batch of the network holds. where: what they were read from."""
    if groups > spec.max_slots:
        raise UsageError(
            f"{where}: sapo.own_groups = {groups}, and a batch of this network holds {spec.max_slots} groups at most "
            "(max_slots of its spec): give fewer"
        )
