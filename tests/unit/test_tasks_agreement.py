"""Two machines agree on tasks by a digest over items and scores: any Python that makes the same ones may play."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sapo_verifier.errors import SapoError
from sapo_verifier.objects import hex_digest
from sapo_verifier.spec import Spec, TaskRule
from sapo_verifier.tasks import (
    PAPER_TASKS,
    POCKET_TASKS,
    OtherTasksError,
    TaskError,
    TaskWorker,
    agreement,
    check_versions,
    sample,
    tasks_digest,
)
from sapo_verifier.tasks.environment import environment
from vectors import VECTORS, raw

ROOT = Path(__file__).resolve().parents[2]
INTERPRETERS = ("python3.11", "python3.12", "python3.13", "python3.14")
BITS = [TaskRule(name="count_bits", config={"min_n": 1, "max_n": 255}, weight=1)]
HERE = {"reasoning_gym": environment()["reasoning_gym"]}
RAISES = TaskRule(name="gcd", config={"min_value": 9, "max_value": 1}, weight=1)
ENDLESS = TaskRule(name="arc_1d", config={"num_train": 10**12}, weight=1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SAPO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tasks"


@pytest.fixture(scope="module")
def worker() -> Iterator[TaskWorker]:
    with TaskWorker() as running:
        yield running


@pytest.fixture(scope="module")
def bits_sample(worker: TaskWorker) -> sample.Sample:
    return sample.take(BITS, worker)


@pytest.fixture(scope="module")
def bits(bits_sample: sample.Sample) -> bytes:
    return bits_sample.digest()


@pytest.fixture(scope="module")
def of_shipped_rules(worker: TaskWorker) -> list[str]:
    """The digests, in hex, of the pocket policy's rules and of those of larger models."""
    lists = [[TaskRule.model_validate(rule) for rule in some] for some in (POCKET_TASKS, PAPER_TASKS)]
    return [sample.take(rules, worker).digest().hex() for rules in lists]


def spec_of(rules: list[TaskRule], digest: bytes, reasoning_gym: str = HERE["reasoning_gym"]) -> Spec:
    found: Any = SimpleNamespace(tasks=rules, versions=SimpleNamespace(reasoning_gym=reasoning_gym, digest=digest))
    return found  # type: ignore[no-any-return]


# --- what is measured ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", VECTORS["task_item"], ids=lambda case: f"{case['dataset']}-{case['seed']}")
def test_committed_items(worker: TaskWorker, case: dict[str, Any]) -> None:
    rule = TaskRule(name=case["dataset"], config=case["config"], weight=1)
    assert sample.item(rule, case["seed"], worker) == case["json"]
    assert case["json"] == {} or case["json"]["rewards"][:2] == "10"  # right, and nothing


@pytest.mark.parametrize("case", VECTORS["tasks_digest"], ids=lambda case: f"{len(case['tasks'])} rules")
def test_committed_digests(worker: TaskWorker, case: dict[str, Any]) -> None:
    rules = [TaskRule(weight=7, **rule) for rule in case["tasks"]]  # a weight changes no item
    assert sample.take(rules, worker).digest() == raw(case["out"])


def test_a_few_hundred_items_whatever_the_number_of_rules() -> None:
    for rules in range(1, 65):
        assert 300 <= rules * len(sample.seeds_of(rules)) < 300 + rules


def test_the_digest_sees_rules_order_questions_and_scores(bits: bytes, worker: TaskWorker) -> None:
    lcm = TaskRule(name="lcm", config={}, weight=1)
    digests = {bits} | {sample.take(rules, worker).digest() for rules in ([*BITS, lcm], [lcm, *BITS], [lcm])}
    assert len(digests) == 4

    class Lenient(TaskWorker):
        def scores(self, *_: Any) -> list[float | None]:
            return [1.0] * 5 + [0.0] * (len(_[3]) - 5)

    with Lenient() as lenient:
        assert sample.take(BITS, lenient).digest() != bits


@pytest.mark.parametrize("answer", ["", "1", "12", "x"])
def test_the_answers_that_are_tried(answer: str) -> None:
    tried = sample.answers_to("why?", answer)
    assert tried[0] == answer
    assert len(tried) == 8
    assert tried[5] != answer


@pytest.mark.parametrize("name", INTERPRETERS)
def test_other_interpreters_make_the_same_items(name: str, of_shipped_rules: list[str], tmp_path: Path) -> None:
    if name == f"python{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip(f"{name} is the one that runs this test")
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} here")
    script = (
        "import json, sys; from sapo_verifier.spec import TaskRule; from sapo_verifier import tasks\n"
        "chosen = (tasks.POCKET_TASKS, tasks.PAPER_TASKS)\n"
        "lists = [[TaskRule.model_validate(rule) for rule in some] for some in chosen]\n"
        "print(json.dumps([sys.version_info[:2], *(tasks.tasks_digest(rules).hex() for rules in lists)]))"
    )
    env = {"PYTHONPATH": str(ROOT / "verifier"), "SAPO_CACHE": str(tmp_path / name), "PATH": "/usr/bin:/bin"}
    needs = "import numpy, pydantic, reasoning_gym, rfc8785, tokenizers, eth_hash.auto"
    able = subprocess.run([found, "-c", needs], env=env, capture_output=True, text=True, check=False, timeout=120)
    if able.returncode != 0:
        pytest.skip(f"{name} lacks packages of the node: {able.stderr.strip().splitlines()[-1:]}")
    done = subprocess.run([found, "-c", script], env=env, capture_output=True, text=True, check=True, timeout=300)
    version, *theirs = json.loads(done.stdout)
    assert name == f"python{version[0]}.{version[1]}"
    assert theirs == of_shipped_rules


# --- what is refused -------------------------------------------------------------------------------------------------


def test_another_reasoning_gym_is_refused_in_words(worker: TaskWorker) -> None:
    with pytest.raises(SapoError, match=r"needs reasoning_gym 0\.1\.24 and this machine has 0\.1\.25.*install"):
        check_versions(spec_of(BITS, bytes(32), "0.1.24"), worker)


def test_other_items_are_refused_in_words(worker: TaskWorker, bits: bytes, cache: Path) -> None:
    check_versions(spec_of(BITS, bits), worker)
    with pytest.raises(OtherTasksError) as caught:
        check_versions(spec_of(BITS, b"\xab" * 32), worker)
    words = str(caught.value)
    assert caught.value.digest == bits
    assert "300 items of count_bits have the digest " + hex_digest(bits) in words
    assert "the spec says 0xabab" in words
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in words
    assert "take versions that other nodes of the network have" in words
    (kept,) = cache.iterdir()
    assert f"compare {kept}" in words


def test_the_first_item_that_differs_is_named_where_the_networks_are_at_hand(
    worker: TaskWorker, bits: bytes, cache: Path
) -> None:
    """As those of a Python that was here before, or the file of a machine that agrees."""
    check_versions(spec_of(BITS, bits), worker)
    (kept,) = cache.iterdir()
    lines = kept.read_text().splitlines()
    lines[18] = f"count_bits 17 {hex_digest(bytes(32))}"
    items = tuple(raw(line.split()[2]) for line in lines[1:])
    theirs = sample.Sample((("count_bits", items),)).digest()
    (cache / "theirs.txt").write_text("\n".join([hex_digest(theirs), *lines[1:], ""]))
    with pytest.raises(OtherTasksError, match="the first that differs is dataset count_bits, seed 17"):
        check_versions(spec_of(BITS, theirs), worker)


def test_the_digest_of_other_rules_is_told_as_such(worker: TaskWorker, bits: bytes) -> None:
    """As where somebody edited a spec's tasks, and not what it says of them."""
    check_versions(spec_of(BITS, bits), worker)
    two = [*BITS, TaskRule(name="lcm", config={}, weight=1)]
    with pytest.raises(OtherTasksError, match="that is the digest of other task rules"):
        check_versions(spec_of(two, bits), worker)


def test_a_generator_that_always_raises_is_an_item_as_others_are(worker: TaskWorker) -> None:
    assert sample.item(RAISES, 0, worker) == {}
    digest = sample.take([RAISES], worker).digest()
    check_versions(spec_of([RAISES], digest), worker)


def test_a_generator_without_an_end_is_refused_in_time() -> None:
    with TaskWorker(timeout=0.5) as hurried, pytest.raises(TaskError, match="no question from dataset 'arc_1d'"):
        check_versions(spec_of([ENDLESS], bytes(32)), hurried)


def test_slow_generators_are_refused_all_together(worker: TaskWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them in its own time; 300 of those would be an hour."""
    monkeypatch.setattr(sample, "SECONDS", 0.0)
    with pytest.raises(TaskError, match="take longer than 0 s, at dataset 'count_bits' and seed 0"):
        check_versions(spec_of(BITS, bytes(32)), worker)


def test_a_scorer_without_a_result_is_refused(worker: TaskWorker) -> None:
    class Silent(TaskWorker):
        def scores(self, *_: Any) -> list[float | None]:
            return [None] * len(_[3])

    with Silent() as silent, pytest.raises(TaskError, match="'count_bits' with seed 0: the scorer gives no result"):
        check_versions(spec_of(BITS, bytes(32)), silent)


# --- what is kept ----------------------------------------------------------------------------------------------------


@pytest.fixture
def taken(bits_sample: sample.Sample, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every sample of BITS that is asked for; none is made again."""
    made: list[int] = []

    def counted(rules: Any, _: TaskWorker) -> sample.Sample:
        assert rules == BITS
        made.append(1)
        return bits_sample

    monkeypatch.setattr(sample, "take", counted)
    return made


def test_what_was_found_is_kept_for_every_part(worker: TaskWorker, bits: bytes, taken: list[int]) -> None:
    check_versions(spec_of(BITS, bits), worker)
    check_versions(spec_of(BITS, bits), worker)
    assert tasks_digest(BITS) == bits
    assert taken == [1]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:1000])


def another_item(file: Path) -> None:
    text = file.read_text()
    file.write_text(text[:-10] + ("0" if text[-10] != "0" else "1") + text[-9:])


def another_digest(file: Path) -> None:
    file.write_text(hex_digest(bytes(32)) + file.read_text()[66:])


def garbage(file: Path) -> None:
    file.write_bytes(b"\xff\x00\n\n  \n")


def empty(file: Path) -> None:
    file.write_bytes(b"")


def no_hex(file: Path) -> None:
    file.write_text(file.read_text().replace("0x", "zz"))


def huge(file: Path) -> None:
    with file.open("ab") as grown:
        grown.truncate(1 << 30)


@pytest.mark.parametrize("damage", [cut, another_item, another_digest, garbage, empty, no_hex, huge, Path.unlink])
def test_a_damaged_file_is_made_anew(
    worker: TaskWorker, bits: bytes, taken: list[int], cache: Path, damage: Any
) -> None:
    check_versions(spec_of(BITS, bits), worker)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    damage(kept)
    check_versions(spec_of(BITS, bits), worker)
    assert taken == [1, 1]
    assert kept.read_bytes() == whole


@pytest.mark.parametrize("name", ["python", "numpy", "reasoning_gym", "sympy", "machine"])
def test_other_versions_are_looked_at_anew(bits: bytes, taken: list[int], cache: Path, name: str) -> None:
    elsewhere: Any = SimpleNamespace(versions=lambda: environment() | {name: "9.9.9"})
    assert name in environment()
    assert tasks_digest(BITS) == bits
    check_versions(spec_of(BITS, bits, elsewhere.versions()["reasoning_gym"]), elsewhere)
    assert taken == [1, 1]
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("place", ["no folder", "no home"])
def test_without_a_place_nothing_is_kept_and_all_is_checked(
    worker: TaskWorker, bits: bytes, taken: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SAPO_CACHE", str(tmp_path / "file"))
    if place == "no home":
        monkeypatch.setattr(agreement, "user_cache", lambda: None)
    for _ in range(2):
        check_versions(spec_of(BITS, bits), worker)
    assert taken == [1, 1]
    with pytest.raises(OtherTasksError, match="have the digest"):
        check_versions(spec_of(BITS, bytes(32)), worker)


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sapo_verifier.user_cache import user_cache

    assert user_cache() == tmp_path / "cache"
    monkeypatch.delenv("SAPO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache() == tmp_path / "sapo"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert user_cache() == tmp_path / "home" / ".cache" / "sapo"
