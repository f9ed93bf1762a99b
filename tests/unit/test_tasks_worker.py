"""The worker process: the same results everywhere, and no way to stop or outlive the process that uses it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sapo_verifier.child_process import ChildProcess
from sapo_verifier.tasks import (
    CATALOGUE,
    NOT_PAYABLE,
    PAPER_TASKS,
    POCKET_TASKS,
    GeneratorError,
    TaskError,
    TaskWorker,
    check_rule,
)
from sapo_verifier.tasks.worker import MAX_RESTARTS

COUNT_BITS: dict[str, Any] = {"min_n": 1, "max_n": 255}


@pytest.fixture(scope="module")
def worker() -> Iterator[TaskWorker]:
    with pytest.MonkeyPatch.context() as patch, TaskWorker() as running:
        patch.setenv("SAPO_PASSWORD", "secret")  # the worker, started later, must not see it
        yield running


def every_entry(worker: TaskWorker) -> list[dict[str, Any]]:
    rules = [(rule["name"], rule["config"]) for rule in POCKET_TASKS + PAPER_TASKS]
    rules += [(name, {}) for name in CATALOGUE if name != "calendar_arithmetic"]
    return [worker.entry(name, config, seed) for name, config in rules for seed in (0, 1, 2**32 - 1)]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody has waited for yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_entries_are_the_same_in_another_process_with_another_hash_seed(worker: TaskWorker) -> None:
    script = (
        "import json, sys\n"
        f"sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from test_tasks_worker import every_entry\n"
        "from sapo_verifier.tasks import TaskWorker\n"
        "with TaskWorker() as worker: print(json.dumps(every_entry(worker)))"
    )
    other = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(other.stdout) == every_entry(worker)


def test_entries_do_not_depend_on_what_was_asked_before(worker: TaskWorker) -> None:
    first = worker.entry("gcd", {}, 7)
    for seed in range(80):  # beyond the cache
        worker.entry("lcm", {}, seed)
    assert worker.entry("gcd", {}, 7) == first


def test_one_configuration_does_not_leak_into_the_scores_of_another(worker: TaskWorker) -> None:
    """decimal_arithmetic sets the process's precision: 3 digits of another item must not round this one's."""
    fine = {"precision": 12, "min_num_decimal_places": 9, "max_num_decimal_places": 9, "min_terms": 1, "max_terms": 1}
    coarse = {"precision": 3, "min_num_decimal_places": 1, "max_num_decimal_places": 1}
    wrong = worker.entry("decimal_arithmetic", fine, 1)["answer"][:-4]
    before = worker.scores("decimal_arithmetic", fine, 1, [wrong])
    worker.entry("decimal_arithmetic", coarse, 1)
    assert worker.scores("decimal_arithmetic", fine, 1, [wrong]) == before == [0.0]


def test_a_decimal_of_the_spec_is_a_float_of_the_library(worker: TaskWorker) -> None:
    spec_form = worker.entry("binary_matrix", {"p_zero": {"decimal": "0.35"}}, 3)
    assert spec_form == worker.entry("binary_matrix", {"p_zero": 0.35}, 3)
    assert spec_form != worker.entry("binary_matrix", {"p_zero": 0.9}, 3)


def test_a_library_that_prints_does_not_disturb(worker: TaskWorker) -> None:
    """bf's compiler prints a dot for every program."""
    assert [worker.entry("bf", {}, seed)["answer"] for seed in range(5)]


def test_a_generator_that_raises_is_told_from_a_worker_that_is_late(worker: TaskWorker) -> None:
    with pytest.raises(GeneratorError, match=r"'gcd' cannot generate seed 1: AssertionError"):
        worker.entry("gcd", {"min_numbers": 0}, 1)
    with pytest.raises(GeneratorError, match="unexpected keyword"):
        worker.entry("gcd", {"no_such_option": 1}, 1)


def test_a_stopped_worker_is_killed_and_the_next_call_works() -> None:
    with TaskWorker() as worker:
        question = worker.entry("count_bits", COUNT_BITS, 1)
        worker.timeout = 0.2
        stopped = worker.pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        with pytest.raises(TaskError, match=r"no reply within 0\.2 s") as caught:
            worker.entry("count_bits", COUNT_BITS, 1)
        assert not isinstance(caught.value, GeneratorError)
        assert not alive(stopped)
        worker.timeout = 10.0
        assert worker.entry("count_bits", COUNT_BITS, 1) == question
        assert worker.pid != stopped


def test_a_late_score_is_unknown_and_the_others_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second answer's worker is stopped before it is asked; the third is scored by a new one."""
    with TaskWorker() as worker:
        truth = worker.entry("count_bits", COUNT_BITS, 1)["answer"]
        ask = worker._ask

        def stop_first(command: str, *request: Any) -> dict[str, Any]:
            if request[-1] != "hang":
                return ask(command, *request)
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGSTOP)
            worker.timeout = 0.2
            try:
                return ask(command, *request)
            finally:
                worker.timeout = 10.0

        monkeypatch.setattr(worker, "_ask", stop_first)
        assert worker.scores("count_bits", COUNT_BITS, 1, ["no", "hang", truth]) == [0.0, None, 1.0]


def test_restarts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with TaskWorker() as worker:
        worker.entry("count_bits", COUNT_BITS, 1)
        starts = []
        ask, start = ChildProcess.ask, worker._start

        def die(child: ChildProcess, message: dict[str, Any], seconds: float) -> dict[str, Any]:
            if message["do"] == "score":
                os.kill(child.pid, signal.SIGKILL)
            return ask(child, message, seconds)

        def count() -> ChildProcess:
            before = worker.pid
            child = start()
            starts.append(child.pid != before)
            return child

        monkeypatch.setattr(ChildProcess, "ask", die)
        monkeypatch.setattr(worker, "_start", count)
        assert worker.scores("count_bits", COUNT_BITS, 1, ["1"] * 8) == [None] * 8
        assert sum(starts) == MAX_RESTARTS


def test_a_worker_that_died_between_calls_is_replaced() -> None:
    with TaskWorker() as worker:
        worker.entry("count_bits", COUNT_BITS, 1)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        pid = worker.pid
        assert wait_until(lambda: not alive(pid), 5)
        assert worker.scores("count_bits", COUNT_BITS, 1, ["x"]) == [0.0]


def test_closing_ends_the_worker_and_leaves_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    worker = TaskWorker()
    worker.entry("count_bits", COUNT_BITS, 1)
    pid = worker.pid
    worker.close()
    assert pid is not None
    assert not alive(pid)
    assert worker.pid is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_orphan_after_kill_of_the_parent() -> None:
    script = (
        "import time\n"
        "from sapo_verifier.tasks import TaskWorker\n"
        "worker = TaskWorker()\n"
        "worker.entry('count_bits', {}, 1)\n"
        "print(worker.pid, flush=True)\n"
        "time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert wait_until(lambda: not alive(pid), 10)


# A question that no machine ever finishes, in a dataset whose loop is plain Python.
ENDLESS: dict[str, Any] = {"num_train": 10**12}


def test_a_late_question_is_an_error_and_the_next_call_works() -> None:
    with TaskWorker() as worker:
        worker.entry("arc_1d", {}, 1)
        late = worker.pid
        worker.timeout = 0.3
        with pytest.raises(TaskError, match=r"'arc_1d' with seed 1: .* no reply within 0\.3 s") as caught:
            worker.entry("arc_1d", ENDLESS, 1)
        assert not isinstance(caught.value, GeneratorError)
        assert late is not None
        assert not alive(late)
        worker.timeout = 10.0
        assert worker.entry("arc_1d", {}, 1)["question"]


def test_out_of_memory_is_this_machine_s_trouble(worker: TaskWorker) -> None:
    """Not a GeneratorError: a machine with more memory would deal the question."""
    with pytest.raises(TaskError, match="the task worker ended with exit status") as caught:
        worker.entry("count_primes", {"max_n": 10**12}, 1)
    assert not isinstance(caught.value, GeneratorError)
    assert worker.entry("count_primes", {"max_n": 100}, 1)["answer"].isdigit()


def test_a_busy_worker_does_not_outlive_its_parent_for_long() -> None:
    script = (
        "from sapo_verifier.tasks import TaskWorker\n"
        "worker = TaskWorker(timeout=0.5)\n"
        "worker.entry('arc_1d', {}, 1)\n"
        "worker.timeout = 60\n"
        "print(worker.pid, flush=True)\n"
        f"worker.entry('arc_1d', {ENDLESS!r}, 1)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.2)  # the request is under way
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert wait_until(lambda: not alive(pid), 15)


def test_the_worker_sees_a_minimal_environment(worker: TaskWorker) -> None:
    worker.entry("count_bits", COUNT_BITS, 1)
    with open(f"/proc/{worker.pid}/environ", "rb") as environ:
        variables = environ.read()
    with open(f"/proc/{worker.pid}/limits") as limits:
        address_space = next(line for line in limits if line.startswith("Max address space"))
    assert b"PYTHONHASHSEED=0" in variables
    assert b"secret" not in variables
    assert str(2 << 30) in address_space


def test_the_memory_limit_leaves_room(worker: TaskWorker) -> None:
    every_entry(worker)
    with open(f"/proc/{worker.pid}/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmPeak"))
    assert peak < (1 << 20)  # KiB: half the limit


@pytest.mark.parametrize("dataset", sorted(NOT_PAYABLE))
def test_what_may_not_pay_is_never_generated(dataset: str) -> None:
    with TaskWorker() as worker:
        with pytest.raises(TaskError, match="may not pay: "):
            worker.entry(dataset, {}, 1)
        with pytest.raises(TaskError, match="may not pay: "):
            worker.scores(dataset, {}, 1, [])
        assert worker.pid is None


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("no_such_dataset", {}, "not on the allow-list"),
        ("gcd", {"size": 2}, "size cannot be configured"),
        ("gcd", {"seed": 2}, "seed cannot be configured"),
        ("spell_backward", {"data_file": "../secret"}, "data_file cannot be configured"),
        ("calendar_arithmetic", {}, "only .* may pay"),
        ("calendar_arithmetic", {"tasks": ["recurring_event_day"]}, "only .* may pay"),
    ],
)
def test_rules_that_are_refused(name: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        check_rule(name, config)


def test_the_default_rules_are_allowed() -> None:
    for rule in POCKET_TASKS + PAPER_TASKS:
        check_rule(rule["name"], rule["config"])
