"""The page of the sweep of tolerances: tables of its rows, and what they answer."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from sapo_lab.sweeps.tolerance_pass import FREE, MADE, SETTINGS
from sapo_lab.sweeps.tolerance_rows import ANY_TWO, WIDEN, Row
from sapo_lab.sweeps.tolerance_words import SHARPER, U32, head
from sapo_verifier.intervals import FULL, VOID_TOLERANCE

TIMES = 5  # a bound is at least so many times the worst that honest passes differ by
ENOUGH = 100_000  # positions in each setting, for a page that is worth something
SHARE = 1e-4  # of positions that may be above the quantile
HONEST = {setting.name for setting in SETTINGS if setting.honest}


class Cell:
    """All rows of one policy, sharpness and setting."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.positions = sum(row["positions"] for row in rows)
        self.completions = sum(row["completions"] for row in rows)
        self._largest = sorted((off for row in rows for off in row["largest"]), reverse=True)

    def sum(self, name: str) -> int:
        return int(sum(row[name] for row in self.rows))

    def of(self, name: str, candidate: float | int) -> list[Any]:
        return [row[name][str(candidate)] for row in self.rows]

    @property
    def worst(self) -> float:
        """The largest difference, as a probability."""
        return float(self._largest[0]) / FULL

    @property
    def quantile(self) -> float:
        """What one position in ten thousand is above: exact, as every part keeps enough of its largest."""
        return float(self._largest[int(self.positions * SHARE)]) / FULL


class Found:
    """The rows of a sweep by policy, sharpness and setting."""

    def __init__(self, rows: Iterable[Row]) -> None:
        sorted_: dict[tuple[str, str, str], list[Row]] = {}
        for row in rows:
            sorted_.setdefault((row["policy"], row["sharpness"], row["setting"]), []).append(row)
        self.cells = {key: Cell(found) for key, found in sorted_.items()}
        self.policies = list(dict.fromkeys(policy for policy, _, _ in self.cells))
        self.kinds = list(dict.fromkeys((policy, sharpness) for policy, sharpness, _ in self.cells))
        known = [setting.name for setting in SETTINGS] + [ANY_TWO]
        self.settings = [name for name in known if any(key[2] == name for key in self.cells)]

    def sharpnesses(self, policy: str) -> list[str]:
        return [sharpness for name, sharpness in self.kinds if name == policy]

    def of_setting(self, setting: str) -> list[Cell]:
        return [cell for key, cell in self.cells.items() if key[2] == setting]


def found_wrong(rows: Iterable[Row]) -> list[str]:
    """Honest records that an honest setting does not pass at the tolerances in force."""
    return [
        f"{row['policy']} × {row['sharpness']}, part {row['part']}, {row['setting']}: {row['status']}"
        for row in rows
        if row["setting"] in HONEST and row["status"] != "pass"
    ]


def page(rows: Sequence[Row], command: str) -> str:
    """Markdown."""
    found = Found(rows)
    sections = [head(command), size(found), *bits(found)]
    for policy in found.policies:
        sections += [f"## How far passes lie from the records: {policy}\n", *differences(found, policy)]
    sections += ["## How many records each *void* would not pass\n", *voids(found)]
    sections += ["## What a producer could choose\n", *choices(found)]
    sections += ["## Decoding and the pass: *widen*\n", *widening(found)]
    sections += [
        "## Is there a tighter safe bound?\n",
        *answer(found),
        "",
        *by_sharpness(found),
        SHARPER,
        U32,
        *narrow(found),
        "",
    ]
    return "\n".join(sections)


def size(found: Found) -> str:
    """How many positions there are, and whether they are few."""
    positions = sum(cell.positions for cell in found.of_setting(MADE))
    words = f"{positions:,} positions. "
    if positions < ENOUGH:
        words += f"These are few: the largest difference of {ENOUGH:,} is further out. "
    passes = [cell for cell in found.cells.values() if "seconds" in cell.rows[0]]
    seconds = sum(row["seconds"] for cell in passes for row in cell.rows)
    rate = 10_000 * seconds / sum(cell.positions for cell in passes)
    words += f"A setting's pass took {rate:.0f} s per 10,000 positions, on average over settings and policies."
    return textwrap.fill(words, 118) + "\n"


def table(columns: Sequence[str], lines: Iterable[Sequence[object]]) -> list[str]:
    rows = [columns, ["---"] * len(columns), *lines]
    return [*(f"| {' | '.join(map(str, row))} |" for row in rows), ""]


def name_of(policy: str, sharpness: str) -> str:
    return f"{policy}, {sharpness}" if sharpness == "adapter" else f"{policy} × {sharpness}"


def bits(found: Found) -> list[str]:
    """Which settings change anything at all."""
    lines = ["## Which settings change anything\n"]
    same: list[str] = []
    other: list[str] = []
    rows = []
    for setting in found.settings:
        if setting in (MADE, ANY_TWO):
            continue
        cells = found.of_setting(setting)
        positions, differ = sum(cell.positions for cell in cells), sum(cell.sum("differ") for cell in cells)
        rows.append([setting, f"{positions:,}", f"{differ / positions:.1%}"])
        (other if differ else same).append(setting)
    words = f"On this processor the same bits as in the process that made the records: {', '.join(same) or 'none'}. "
    again = sum(cell.sum("differ") for cell in found.of_setting(MADE))
    words += f"Others: {', '.join(other) or 'none'}. The same setting in another process: {again} positions differ."
    return [*lines, *textwrap.wrap(words, 118), "", *table(["setting", "positions", "with other bits"], rows)]


def differences(found: Found, policy: str) -> list[str]:
    """The 99.99 % and the largest difference."""
    sharpnesses = found.sharpnesses(policy)
    rows = []
    for setting in found.settings:
        cells = [found.cells.get((policy, each, setting)) for each in sharpnesses]
        if any(cells):
            rows.append([setting, *(f"{c.quantile:.1e} · {c.worst:.1e}" if c else "" for c in cells)])
    made = [found.cells[policy, each, MADE] for each in sharpnesses]
    rows.insert(0, ["positions, completions", *(f"{c.positions:,}, {c.completions:,}" for c in made)])
    return table(["99.99 % · largest", *(name_of(policy, each) for each in sharpnesses)], rows)


def voids(found: Found) -> list[str]:
    """Positions and completions beyond each candidate."""

    def beyond(cell: Cell, candidate: float) -> str:
        pairs = cell.of("void", candidate)
        positions, completions = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
        return f"{positions}, {completions / cell.completions:.1%}" if positions else "0"

    rows = []
    for policy, sharpness in found.kinds:
        for setting in (ANY_TWO, "jitter"):
            if cell := found.cells.get((policy, sharpness, setting)):
                cells = [beyond(cell, candidate) for candidate in FREE]
                rows.append([name_of(policy, sharpness), setting, *cells, cell.sum("rejected")])
    words = "Positions beyond the bound, and the share of completions that hold one; *rejected* is at 0.05.\n"
    return [words, *table(["policy", "compared", *(f"{each:g}" for each in FREE), "rejected"], rows)]


def choices(found: Found) -> list[str]:
    """The share of completions with a free choice, at the mean rate of the policy's positions."""
    rows = []
    for policy, sharpness in found.kinds:
        cell, made = found.cells.get((policy, sharpness, "float64")), found.cells[policy, sharpness, MADE]
        line = [name_of(policy, sharpness)]
        for candidate in FREE:
            rate = sum(cell.of("free", candidate)) / cell.positions if cell else math.nan
            line.append(f"{-math.expm1(-15 * rate):.2%} · {-math.expm1(-256 * rate):.1%}")
        near = [str(sum(made.of("near", candidate))) for candidate in FREE]
        rows.append([*line, f"{' · '.join(near)} of {made.completions:,}"])
    words = (
        "The share of completions of 15 · of 256 tokens in which some u lies within *void* of an edge, so that either\n"
        "of two tokens passes: computed from all edges of the float64 pass, at the policy's mean rate. *Seen*:\n"
        "completions of the sweep in which the u drawn did. One token with nearly all the probability has an edge or\n"
        "two: 5 % of 256 tokens at 1e-4. Each further token of some width adds an edge, so flat policies leave more.\n"
    )
    return [words, *table(["policy", *(f"{each:g}" for each in FREE), "seen"], rows)]


def widening(found: Found) -> list[str]:
    """How far apart the engine's edges and the pass's are, where it matters for `widen`."""
    rows = []
    for policy, sharpness in found.kinds:
        cell, made = found.cells.get((policy, sharpness, "decode")), found.cells[policy, sharpness, MADE]
        if cell:
            beyond = [f"{sum(cell.of('beyond_widen', candidate)) / cell.positions:.2%}" for candidate in WIDEN]
            rows.append([name_of(policy, sharpness), f"{cell.worst:.1e}", *beyond, made.sum("widened")])
    words = (
        "Positions whose edges differ by more than the candidate between decoding and the pass. A repair (the\n"
        "completion is generated again from there) takes a u between the two edges, too, which happens with about the\n"
        "difference's probability.\n"
    )
    return [words, *table(["policy", "largest", *(f"{each:g}" for each in WIDEN), "widened"], rows)]


def answer(found: Found) -> list[str]:
    """What the rows say of each policy, the bound for all of them, and what would become of the others."""
    rows, bounds = [], {}
    for policy, sharpness in found.kinds:
        worst = found.cells[policy, sharpness, ANY_TWO].worst
        bounds[policy, sharpness] = TIMES * worst
        fits = [f"{each:g}" for each in FREE if each >= TIMES * worst]
        rows.append([name_of(policy, sharpness), f"{worst:.1e}", f"{TIMES * worst:.1e}", ", ".join(fits) or "none"])
    hardest = max(bounds, key=lambda kind: bounds[kind])
    in_force, fitting = VOID_TOLERANCE / FULL, _tightest(bounds.values())
    words = [
        f"The worst that two honest passes differed by is {bounds[hardest] / TIMES:.1e}, of {name_of(*hardest)};"
        f" {TIMES} times that is {bounds[hardest]:.1e}."
    ]
    if fitting is None:
        words.append(f"All candidates are below it: *void* = {in_force:g} lacks that margin, and cannot be tightened.")
    elif fitting >= in_force * 0.999:
        words.append(f"That leaves {in_force:g} alone: it cannot be tightened for all of these policies.")
    else:
        words.append(f"So {fitting:g} is safe for all policies measured.")
    return [*table(["policy", "worst of any two", f"{TIMES} times", "candidates that bear it"], rows), *words]


def _tightest(bounds: Iterable[float]) -> float | None:
    """The smallest candidate that is no less than any of the bounds."""
    highest = max(bounds)
    return min((each for each in FREE if each >= highest), default=None)


def by_sharpness(found: Found) -> list[str]:
    """Up to which sharpness which candidate holds, with the worst of what each is compared with."""
    rows = []
    for sharpness in dict.fromkeys(sharpness for _, sharpness in found.kinds):
        cells = [
            found.cells.get((policy, sharpness, name)) for policy in found.policies for name in (ANY_TWO, "jitter")
        ]
        passes, jitter = [c for c in cells[::2] if c], [c for c in cells[1::2] if c]
        fitting = _tightest(TIMES * cell.worst for cell in passes)
        moved = f"{max(cell.worst for cell in jitter):.1e}" if jitter else ""
        rows.append(
            [sharpness, f"{max(cell.worst for cell in passes):.1e}", moved, f"{fitting:g}" if fitting else "none"]
        )
    return table(["sharpness", "worst of any two", "worst jitter", f"tightest, {TIMES} times the worst"], rows)


def narrow(found: Found) -> list[str]:
    """Records of improbable tokens."""
    rows = []
    for policy, sharpness in found.kinds:
        made = found.cells[policy, sharpness, MADE]
        counts = [f"{sum(made.of('narrow', each)):,}" for each in (10, 20, 32)]
        rows.append([name_of(policy, sharpness), f"{made.positions:,}", *counts])
    return table(["policy", "records", "p below 2⁻¹⁰", "2⁻²⁰", "2⁻³²"], rows)
