"""The attacks by name, and what each may come to; without the imports that running one takes."""

from collections import Counter
from collections.abc import Sequence

# How many accepted batches each may have at most. None: its batches are honest, what it cheats with is something else;
# or (withholds_to_hurt) whether voters look where it is false is luck.
ATTACKS: dict[str, int | None] = {
    "solver": 0,
    "forger": 0,
    "copier": 0,
    "replayer": 1,  # the first one, which it repeats
    "best_of_n": 0,
    "false_reward": 0,
    "wrong_root": 0,
    "wrong_policy": 0,
    "stale_policy": 0,
    "made_up_intervals": 0,
    "unrunnable_base": 0,
    "unloadable_weights": 0,
    "early_stop": 0,
    "filler": 0,
    "schema_bomber": 0,
    "junk_claimer": 0,
    "low_turnout_cartel": 0,
    "self_slasher": 0,
    "hider": 0,
    "withholder": 0,
    "half_withholder": 0,
    "trickle": 0,
    "serves_then_withholds": None,  # who accepted them serves them
    "withholds_after_reject": 0,
    "withholds_to_hurt": None,
    "shielding_friend": None,
    "starver": None,
    "selective_aborter": None,
    "lazy": None,
    "liar": None,
    "silent": None,
    "frivolous_disputer": None,
    "censor": None,
    "friend": None,
    "absent": None,
    "lazy_answerer": None,
    "answer_guesser": None,
    "shielded_faker": None,
    "false_author": 0,
    "answer_taker": None,
    "chaotic": None,
    "hidden_by_chaos": 0,
}


def node_names(attacks: Sequence[str]) -> list[str]:
    """Nodes are called after their attacks, the second of a kind solver-2."""
    seen: Counter[str] = Counter()
    names = []
    for attack in attacks:
        seen[attack] += 1
        names.append(attack if seen[attack] == 1 else f"{attack}-{seen[attack]}")
    return names
