"""A sample of `scripts/scorers`: false answers earn nothing, and shipped specs have no constant worth knowing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sapo_devnet.formula.policy import formula_spec
from sapo_lab.sweeps import scoring
from sapo_lab.sweeps.false_answers import meaning, near
from sapo_lab.sweeps.scoring import MOST_CONSTANT, Case, Found, cases, look, table
from sapo_verifier.networks import mixed_spec, models_spec
from sapo_verifier.tasks import TaskWorker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "scorers.md"
SLOW = {"spell_backward": (30, 10), "word_sequence_reversal": (40, 10), "caesar_cipher": (60, 10), "bf": (200, 10)}
NAMES = [f"{case.dataset}-{case.spec}" for case in cases()]


@pytest.fixture(scope="module")
def worker() -> Iterator[TaskWorker]:
    with TaskWorker() as running:
        yield running


@pytest.mark.parametrize("case", cases(), ids=NAMES)
def test_false_answers_earn_nothing_and_shipped_constants_little(case: Case, worker: TaskWorker) -> None:
    found = look(case, worker, *SLOW.get(case.dataset, (1000 if case.shipped else 20, 20)))
    assert found.dealt >= 20
    assert found.unearned == []
    assert not found.copied
    assert found.broken() == [] or not case.shipped


def test_what_ships_deals_the_rules_that_are_looked_at() -> None:
    rules = {(case.dataset, str(case.config)) for case in cases() if case.shipped}
    base = formula_spec().bases[0]
    wide = base.model_copy(update={"context": 4096, "template": "{question}\n{instruction}"})
    for spec in (formula_spec(), mixed_spec([base]), models_spec([wide])):
        assert {(rule.name, str(rule.config)) for rule in spec.tasks} <= rules


def test_the_page_is_the_table_of_these_cases() -> None:
    """And of no other configurations; the shares are those of its own run."""
    rows = [line.split(" | ")[:3] for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    made = [Found(case, dealt=1, tried=1) for case in cases()]
    for found in made:
        found.answers["x"], found.written["x"] = 1, "x"
    assert rows == [line.split(" | ")[:3] for line in table(made).splitlines()[2:]]
    shares = {line.rsplit("|", 2)[1].strip(): line for line in PAGE.read_text().splitlines() if line.startswith("| ")}
    for share, line in shares.items():
        if "| none |" not in line and share.endswith("%"):
            assert float(share.removesuffix("%")) <= 100 * MOST_CONSTANT, line


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case("gcd", "pocket", {}), "'2' is right in 3"),
        (Case("count_bits", "pocket", {}), "is right in 1"),
    ],
)
def test_a_constant_that_pays_is_named(case: Case, words: str, worker: TaskWorker) -> None:
    assert any(words in each for each in look(case, worker, 300, 1).broken())


def test_a_copy_that_pays_is_named(worker: TaskWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule that passes such questions over, half of these matrices earn for their own rows."""
    monkeypatch.setattr(scoring, "shows", lambda *_: False)
    case = Case("binary_matrix", "none", {"min_n": 2, "max_n": 3, "p_zero": {"decimal": "0.35"}})
    assert any("' earns in " in each for each in look(case, worker, 100, 100).broken())


def test_a_tolerant_scorer_is_named(worker: TaskWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own: within one unit of the last place, or within 1."""
    import reasoning_gym

    for name in ("number_sorting", "decimal_arithmetic"):
        case = next(case for case in cases() if case.dataset == name and case.spec == "pocket")
        dataset = reasoning_gym.create_dataset(name, seed=0, size=1, **case.config)

        def tolerant(_: str, answer: str, truth: str, dataset: Any = dataset) -> bool:
            entry = {"answer": truth, "metadata": {"direction": "ascending"}}
            return bool(dataset.score_answer(answer, entry) == 1.0)

        monkeypatch.setattr(scoring, "right", tolerant)
        assert any("one unit " in each for each in look(case, worker, 20, 20).unearned), name


def test_near_answers_are_near() -> None:
    answers = near("3.12")
    assert answers["one unit more"] == "3.13"
    assert answers["one unit less"] == "3.11"
    assert answers["rounded to 1"] == "3.1"
    assert answers["another digit 2"] == "3.22"
    assert meaning("decimal_arithmetic", "3.120") == meaning("decimal_arithmetic", "3.12")
    assert meaning("number_sorting", "[1, '2.0']") == meaning("number_sorting", "['1.0', '2']")
    assert meaning("number_sorting", "1, 2") is None
