"""The configurations of the table: the paper's four, what repairs them, and the controls."""

from dataclasses import replace

from sapo_lab.experiment.setting import Setting

ALONE = Setting(own_groups=8, external_groups=0, external="truncated")  # J = 0: no rule matters


def shared(own: int, external: int, rule: str) -> Setting:
    return Setting(own_groups=own, external_groups=external, external=rule)  # type: ignore[arg-type]


# As many groups as a 4/4 node trains on.
EQUAL_GROUPS = 6

TABLE: dict[str, Setting] = {
    "8/0": ALONE,
    "6/2 as-own": shared(6, 2, "as-own"),
    "4/4 as-own": shared(4, 4, "as-own"),
    "2/6 as-own": shared(2, 6, "as-own"),
    "4/4 truncated": shared(4, 4, "truncated"),
    "2/6 truncated": shared(2, 6, "truncated"),
    "4/4 clipped": shared(4, 4, "clipped"),
    "4/4 drop-negatives": shared(4, 4, "drop-negatives"),
    "4/4 truncated-drop-negatives": shared(4, 4, "truncated-drop-negatives"),
    "8/0, own negatives dropped": replace(ALONE, external="drop-negatives", own_as_external=True),
    "8/0 of 32 generated": replace(ALONE, generate=32),
    f"{EQUAL_GROUPS}/0 of 32 generated": replace(ALONE, own_groups=EQUAL_GROUPS, generate=32),
}

QUICK = ("8/0", "4/4 as-own", "4/4 truncated", "4/4 drop-negatives", "8/0 of 32 generated")
