"""Samples of `scripts/fuzz documents`, and the faults that it found."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from sapo_client.state.report import read_rounds, read_status
from sapo_devnet.processes import resident_kib
from sapo_devnet.testkit.formula import SPEC
from sapo_lab.sweeps.documents import hostile_document, kinds, sweep
from sapo_lab.sweeps.tally import Tally, reset_peak
from sapo_verifier.errors import ObjectError
from sapo_verifier.spec import Spec


def test_no_document_raises_anything_but_our_errors_or_costs_much() -> None:
    tally = sweep(1200, seed=1_000_000)
    print("\n" + tally.table())
    assert sum(tally.outcomes.values()) == 1200
    names = {name.split(":")[0] for name in tally.outcomes}
    assert names == {
        "records",
        "group",
        "manifest",
        "policy",
        "spec",
        "canonical",
        "deployment",
        "rounds file",
        "status file",
    }
    for name in names - {"rounds file", "status file"}:  # the sample has both kinds, or it would say nothing
        assert tally.outcomes[f"{name}: refused"] > tally.outcomes[f"{name}: accepted"] / 4 > 0, tally.outcomes


def test_the_sweep_sees_what_breaks_its_rules(tmp_path: Path) -> None:
    tally = Tally(limit_seconds=0.5, limit_mib=50.0)
    with pytest.raises(AssertionError, match=r"took .* MiB"):
        tally.measured("large", lambda: len(bytearray(200 << 20).replace(b"\0", b"\1")))
    with pytest.raises(AssertionError, match=r"took .* s, more"):
        tally.measured("slow", lambda: time.sleep(0.6))
    kind = kinds(tmp_path)["group"]
    assert len({hostile_document(random.Random(i), kind) for i in range(200)}) > 150, "documents differ"


@pytest.mark.parametrize("field", ["tasks", "bases"])
def test_a_spec_of_very_many_rules_is_refused_cheaply(field: str) -> None:
    """Each rule that is not one costs an error object of kilobytes: 1 MiB of `{}` took 1.6 GB and 16 seconds."""
    document: dict[str, Any] = SPEC.to_json() | {field: [{}] * 300_000}
    data = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    before = reset_peak()
    with pytest.raises(ObjectError, match=f"{field}: List should have at most 64"):
        Spec.parse(data)
    assert resident_kib("VmHWM") - before < 100 * 1024


@pytest.mark.parametrize("line", [b"\xed\xa0\x80", b"[1]", b"null", b"{}", b'{"round": "x"}', b"[" * 5000, b"9" * 5000])
def test_a_damaged_line_of_the_reports_is_passed_over(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "rounds.jsonl").write_bytes(b'{"round": 1}\n' + line + b'\n{"round": 2}\n')
    assert [report["round"] for report in read_rounds(tmp_path)] == [1, 2]


@pytest.mark.parametrize("data", [b"", b"\xff", b"[1]", b"null", b"[" * 5000])
def test_a_damaged_status_is_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "status.json").write_bytes(data)
    assert read_status(tmp_path) is None
