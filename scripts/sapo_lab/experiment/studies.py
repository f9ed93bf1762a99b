"""Studies: each one question, as the settings that answer it."""

from dataclasses import replace

from sapo_client.training.rules import DEFAULT_EXTERNAL
from sapo_lab.experiment.configurations import ALONE, shared
from sapo_lab.experiment.setting import Setting

BEST = shared(4, 4, DEFAULT_EXTERNAL)
AGES = (0, 4, 8)
RULES = ("as-own", "truncated", "drop-negatives")


def study(name: str) -> dict[str, Setting]:
    """The configurations of a study by name."""
    return _STUDIES[name]()


def _staleness() -> dict[str, Setting]:
    """External groups of one age only."""
    return {f"{rule}, age {age}": replace(shared(4, 4, rule), ages=(age,)) for age in AGES for rule in RULES}


def _specialists() -> dict[str, Setting]:
    """Nodes that know two of the nine datasets each; held-out is over all nine."""
    return {
        "8/0": replace(ALONE, specialists=2),
        **{f"4/4 {rule}": replace(shared(4, 4, rule), specialists=2) for rule in RULES},
    }


def _loss_of_peers() -> dict[str, Setting]:
    """Half of the nodes vanish before round 20."""
    return {"nobody leaves": BEST, "half leave": replace(BEST, leave=20), "8/0": ALONE}


def _poison() -> dict[str, Setting]:
    """Four of eight nodes poison; the checks are off, on, or on with the model. Sums are over the other four."""
    found = {"8/0": replace(ALONE, nodes=4), "nobody poisons, four nodes": replace(BEST, nodes=4)}
    for poison, checks in (
        *(("false-rewards", "off"), ("false-rewards", "documents")),
        *(("solver", "documents"), ("solver", "model")),  # what the documents do not give away
    ):
        setting = replace(BEST, poison=poison, poisoners=4, checks=checks)  # type: ignore[arg-type]
        found[f"{poison}, checks: {checks}"] = setting
    return found


def _external_groups() -> dict[str, Setting]:
    """J from 0 to 16 at I = 4."""
    return {f"J = {j}": replace(BEST, external_groups=j) for j in (0, 1, 2, 4, 8, 16)}


def _draws() -> dict[str, Setting]:
    """Which external groups to draw: each once, or again while it is on offer; for two rounds or for four; uniformly or
    not; how many. fill: J more than 4, by as many own groups as are missing."""
    once = replace(BEST, once=True)
    four = (1, 2, 3, 4)
    return {
        "4/4": BEST,
        "4/4, of four rounds": replace(BEST, ages=four),
        "4/8": replace(BEST, external_groups=8),
        "4/4, the closest": replace(BEST, draw="closest"),
        "4/4, each once": once,
        "4/4, each once, of four rounds": replace(once, ages=four),
        "4/8, each once": replace(once, external_groups=8),
        "4/4, each once, by variance": replace(once, draw="balanced"),
        "4/4, each once, by weakness": replace(once, draw="weakest"),
        "4/4, each once, filled up": replace(once, draw="fill"),
        "8/0": ALONE,
        "12/0": replace(ALONE, own_groups=12),
        "8/0 of 32 generated": replace(ALONE, generate=32),
    }


def _sparsity() -> dict[str, Setting]:
    """How rarely the policies are right at first."""
    return {
        f"{name}, right format {share:.1%} at first": replace(setting, right_format=share)
        for share in (0.003, 0.01, 0.03)
        for name, setting in (("8/0", ALONE), ("4/4 shared", BEST))
    }


def _heterogeneous() -> dict[str, Setting]:
    """Half of the nodes have another tokenizer, or half of the policies are smaller and know less. To nodes of another
    base groups are text without intervals, and truncated weights are dropped negatives."""
    return {
        "8/0": ALONE,
        **{f"4/4 {rule}": shared(4, 4, rule) for rule in RULES},
        **{f"4/4 {rule}, two tokenizers": replace(shared(4, 4, rule), other="tokenizer") for rule in RULES[::2]},
        "8/0, half smaller": replace(ALONE, other="smaller"),
        **{f"4/4 {rule}, half smaller": replace(shared(4, 4, rule), other="smaller") for rule in RULES},
    }


def _learning_rate() -> dict[str, Setting]:
    """Ten times the step: where policies move away from each other, does it matter how external tokens are weighed?"""
    settings = {"8/0": ALONE, **{f"4/4 {rule}": shared(4, 4, rule) for rule in RULES}}
    return {f"{name}, ten times the step": replace(setting, learning_rate=3e-4) for name, setting in settings.items()}


_STUDIES = {
    "learning-rate": _learning_rate,
    "heterogeneous": _heterogeneous,
    "draws": _draws,
    "sparsity": _sparsity,
    "staleness": _staleness,
    "specialists": _specialists,
    "loss-of-peers": _loss_of_peers,
    "poison": _poison,
    "external-groups": _external_groups,
}
