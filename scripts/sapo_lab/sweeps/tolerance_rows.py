"""What the sweep of tolerances counts of a part in a setting: a row, one line of JSON."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sapo_lab.sweeps.tolerance_batches import Part
from sapo_lab.sweeps.tolerance_pass import FREE, MADE, Setting
from sapo_verifier.intervals import FULL, REJECT_TOLERANCE, miss

WIDEN = (1e-5, 5e-6, 2e-6, 1e-6)  # what the tolerance `widen` may be
ANY_TWO = "any two"  # the row that compares all honest settings with each other
KEPT, PER_KEPT = 32, 1000  # a row keeps its largest differences, as many as the 99.99 % of many parts can need

Row = dict[str, Any]
Key = tuple[str, str, int, str]


def key_of(row: Row) -> Key:
    return row["policy"], row["sharpness"], row["part"], row["setting"]


def read_rows(file: Path) -> dict[Key, Row]:
    """A line that a killed sweep left half is passed over, and made again."""
    rows = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        if line.endswith("}"):
            row = json.loads(line)
            rows[key_of(row)] = row
    return rows


def units(fraction: float) -> int:
    """A tolerance in parts of 2**64, as the protocol rounds it."""
    return FULL // round(1 / fraction)


def apart(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return np.where(a > b, a - b, b - a)


def off_of(part: Part, found: Mapping[str, Any]) -> NDArray[np.uint64]:
    """max(|lo − lo'|, |last − last'|) against the records, one for each position."""
    lo = np.array([r.lo for each in part.records for r in each], dtype=np.uint64)
    last = np.array([r.last for each in part.records for r in each], dtype=np.uint64)
    return np.maximum(apart(lo, found["lo"]), apart(last, found["last"]))


def setting_row(part: Part, setting: Setting, found: Mapping[str, Any], made: Mapping[str, Any]) -> Row:
    """found: what the setting's process left of the part; made: what the one left in which it was made."""
    off = off_of(part, found)
    differ = (found["lo"] != made["lo"]) | (found["last"] != made["last"])
    row = counted(part, off, found["owns"])
    row |= {
        "status": str(found["status"]),
        "differ": int(differ.sum()),
        "seconds": round(float(found["seconds"]), 2),
    }
    if setting.name == MADE:
        row |= chances(part, made)
    if setting.way == "float64":
        row["free"] = dict(zip(map(str, FREE), found["free"].tolist(), strict=True))
    if setting.way == "decode":
        between = np.maximum(apart(made["lo"], found["lo"]), apart(made["last"], found["last"]))
        row["beyond_widen"] = {str(each): int((between > np.uint64(units(each))).sum()) for each in WIDEN}
    return row


def any_two_row(part: Part, passes: Sequence[Mapping[str, Any]]) -> Row:
    """The largest difference between any two of the honest settings, one for each position."""
    off = np.zeros(part.positions, dtype=np.uint64)
    for edge in ("lo", "last"):
        values = np.stack([found[edge] for found in passes])
        off = np.maximum(off, values.max(axis=0) - values.min(axis=0))
    return counted(part, off, np.all([found["owns"] for found in passes], axis=0)) | {"differ": int((off > 0).sum())}


def counted(part: Part, off: NDArray[np.uint64], owns: NDArray[np.bool_]) -> Row:
    """Differences, and at each candidate for `void` how many positions and completions are beyond it."""
    ends = np.cumsum([len(each) for each in part.records])
    worst = np.array([piece.max() for piece in np.split(off, ends[:-1])], dtype=np.uint64)
    largest = np.sort(off)[::-1][: max(KEPT, len(off) // PER_KEPT)]
    return {
        "positions": part.positions,
        "completions": len(part.records),
        "largest": [int(each) for each in largest],
        "rejected": int(((off > np.uint64(REJECT_TOLERANCE)) | ~owns).sum()),
        "void": {
            str(each): [int((off > np.uint64(units(each))).sum()), int((worst > np.uint64(units(each))).sum())]
            for each in FREE
        },
    }


def chances(part: Part, made: Mapping[str, Any]) -> Row:
    """Of the part as it was made: intervals widened, completions in which u comes near an edge, narrow intervals."""
    us = [u for each in part.us for u in each]
    lows, lasts = made["lo"].tolist(), made["last"].tolist()
    misses = [miss(u, lo, last) for u, lo, last in zip(us, lows, lasts, strict=True)]
    near = {}
    for each in FREE:
        completions = zip(part.us, part.records, strict=True)
        near[str(each)] = sum(
            any(is_near(u, r.lo, r.last, units(each)) for u, r in zip(us, records, strict=True))
            for us, records in completions
        )
    widths = [last - lo + 1 for lo, last in zip(lows, lasts, strict=True)]
    return {
        "widened": sum(each > 0 for each in misses),
        "near": near,
        "narrow": {str(bits): sum(width < 1 << (64 - bits) for width in widths) for bits in (10, 20, 32)},
    }


def is_near(u: int, lo: int, last: int, tolerance: int) -> bool:
    """Whether the neighbour's interval, widened by at most the tolerance, holds u."""
    return (lo > 0 and u - lo + 1 <= tolerance) or (last < FULL - 1 and last + 1 - u <= tolerance)
