"""A sample of `scripts/tolerances`: honest records pass in every setting, another policy's are rejected in each."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sapo_client.policy.policy import Policy
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_lab.sweeps import tolerances
from sapo_lab.sweeps.tolerance_batches import Part, make_part, rules, sharpen
from sapo_lab.sweeps.tolerance_page import found_wrong
from sapo_lab.sweeps.tolerance_pass import FREE, MADE, SETTINGS, file_of, free_choice, run
from sapo_lab.sweeps.tolerance_rows import ANY_TWO, is_near, read_rows, units
from sapo_verifier.bases import digest_of_folder
from sapo_verifier.intervals import FULL, VOID_TOLERANCE
from sapo_verifier.tasks import TaskWorker

SAMPLE = ("ATEN default", "all oldest", "float64")  # each rounds otherwise than the process that makes the records


def test_honest_records_pass_in_every_setting_and_false_ones_in_none(tmp_path: Path, worker: TaskWorker) -> None:
    folder, other = tiny_folder(tmp_path / "tiny"), tiny_folder(tmp_path / "other", seed=1)
    spec = rules(folder)
    honest = make_part(Policy.load(folder), spec, 0, 2, worker)
    false = make_part(Policy.load(other), spec, 0, 2, worker)
    works = [{"sharpness": "1", "kept": str(tmp_path / name), "parts": [0]} for name in ("honest", "false")]
    for work, part in zip(works, (honest, false), strict=True):
        Path(str(work["kept"])).mkdir()
        part.write(Path(str(work["kept"])) / "part-0.json")
    settings = [setting for setting in SETTINGS if setting.name in SAMPLE]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda setting: run(folder, works, setting), settings))
    for setting in settings:
        found, refused = (np.load(file_of(tmp_path / name, setting, 0)) for name in ("honest", "false"))
        assert str(found["status"]) == "pass", setting.name
        assert str(refused["status"]) == "fail", setting.name
        lows = [record.lo for records in honest.records for record in records]
        assert lows != found["lo"].tolist(), f"{setting.name} changes nothing: the sample shows nothing"


def swept(folder: Path, part: Part, off: int) -> None:
    """What a sweep leaves: the part, and what its settings found; `2 threads` is off by so many units."""
    part.write(folder / "part-0.json")
    lo = np.array([r.lo for each in part.records for r in each], dtype=np.uint64)
    last = np.array([r.last for each in part.records for r in each], dtype=np.uint64)
    for setting in SETTINGS:
        moved = np.uint64(off if setting.name == "2 threads" else 0)
        status = "void" if moved > VOID_TOLERANCE else "pass"
        np.savez(
            file_of(folder, setting, 0),
            lo=np.where(lo > 0, lo + moved, lo),
            last=last,
            owns=np.ones(len(lo), dtype=bool),
            free=np.full(len(FREE), 0.5) if setting.way == "float64" else np.array([]),
            status=np.array(status),
            seconds=np.array(1.0),
        )


@pytest.mark.parametrize(("off", "bound", "status"), [(units(1e-6), "1e-05 is safe", 0), (units(2e-4), "lacks", 1)])
def test_a_sweep_counts_what_is_there_once_and_says_what_bound_it_bears(
    tmp_path: Path, worker: TaskWorker, off: int, bound: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_folder(tmp_path / "tiny")
    part = make_part(Policy.load(folder), rules(folder), 0, 2, worker)
    kept = tmp_path / "sweep" / f"tiny-{digest_of_folder(folder).hex()[:8]}-1"
    kept.mkdir(parents=True)
    swept(kept, part, off)
    words = ["--policies", str(folder), "--sharpness", "1", "--positions", "1", "--folder", str(tmp_path / "sweep")]
    for _ in range(2):
        assert tolerances.main([*words, "--page", str(tmp_path / "page.md")]) == status
    lines = (tmp_path / "sweep" / "rows.jsonl").read_text().splitlines()
    assert len(lines) == len(SETTINGS) + 1, "a row for each setting and one for any two of them, once"
    rows = read_rows(tmp_path / "sweep" / "rows.jsonl")
    worst = rows[str(folder), "1", 0, ANY_TWO]
    assert worst["largest"][0] == off
    assert worst["void"]["0.0001"][0] == (worst["void"]["1e-05"][0] if status else 0)
    assert bound in (tmp_path / "page.md").read_text()
    assert len(found_wrong(rows.values())) == status
    assert ("scripts/tolerances: " in capsys.readouterr().err) == bool(status)


def test_a_line_that_was_cut_is_made_again(tmp_path: Path) -> None:
    row = {"policy": "p", "sharpness": "1", "part": 0, "setting": MADE}
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps({**row, 'part': 1})[:-9]}")
    assert list(read_rows(tmp_path / "rows.jsonl")) == [("p", "1", 0, MADE)]


def test_a_free_choice_is_what_lies_near_an_edge_between_two_tokens() -> None:
    tolerance = FREE[0]
    alone, two, flat = torch.zeros(1, 8), torch.zeros(1, 8), torch.full((1, 8), 1 / 8)
    alone[0, 3] = 1
    two[0, 2] = two[0, 5] = 0.5
    shares = [1 - np.exp(-free_choice(p.double())[0]) for p in (alone, two, flat)]
    assert shares == pytest.approx([0, 2 * tolerance, 14 * tolerance], abs=1e-12)
    assert is_near(101, 100, 200, 2)
    assert not is_near(102, 100, 200, 2)
    assert is_near(199, 100, 200, 2)
    assert not is_near(0, 0, FULL - 1, FULL // 2), "the only token has no neighbour"


def test_a_policy_is_sharpened_as_by_its_output_layer(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "tiny")
    plain, sharp = Policy.load(folder).model, Policy.load(folder).model
    sharpen(sharp, 4)
    ids = torch.arange(5).unsqueeze(0)
    with torch.no_grad():
        assert torch.equal(plain(ids).logits * 4, sharp(ids).logits)


def test_settings_keep_the_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    made = next(setting for setting in SETTINGS if setting.name == MADE)
    assert "MKL_CBWR" not in made.environment()
    assert replace(made, threads=2).environment()["OMP_NUM_THREADS"] == "2"
