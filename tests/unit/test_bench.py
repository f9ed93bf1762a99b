"""`sapo bench` on a tiny policy, and what scripts/bench makes of measurements."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sapo_client import cli
from sapo_client.bench.meter import Meter, Taken
from sapo_client.bench.prompts import bench_spec
from sapo_client.bench.work import Result
from sapo_client.bench.work import bench as work_bench
from sapo_client.commands.bench import table
from sapo_client.policy.policy import Policy
from sapo_client.state.settings import GenerationSettings
from sapo_client.training.sapo import TrainConfig
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_lab.bench.__main__ import Entry, _run
from sapo_lab.bench.document import write
from sapo_lab.bench.work import Report, Step, Work

MIB = 1 << 20
RAN = {
    "command", "policy", "parameters", "trained_parameters", "engine", "device", "threads", "lora_rank", "prompts",
    "group_size", "max_new_tokens", "micro_batch_tokens", "train_dtype", "checkpointing", "torch",
}  # fmt: skip
TOOK = {field.name for field in dataclasses.fields(Result)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("bench") / "tiny")


def bench(what: str, folder: Path, *more: str) -> int:
    words = ["bench", what, "--policy", str(folder), "--device", "cpu", "--threads", "1"]
    return cli.main([*words, "--prompts", "2", "--group-size", "4", "--max-new-tokens", "12", *more])


@pytest.mark.parametrize("what", ["generate", "train", "step"])
def test_every_column_is_there_and_they_agree(folder: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(what, folder, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == RAN | TOOK
    assert (found["command"], found["policy"], found["engine"]) == (what, "tiny", "torch")
    assert found["trained_parameters"] == found["parameters"] > 1000
    assert 2 * 4 <= found["tokens"] <= 2 * 4 * 12
    assert found["prompt_tokens"] >= 2 * 4
    assert found["tokens_per_second"] * found["seconds"] == pytest.approx(found["tokens"])
    assert found["peak_bytes"] > 50 * MIB, "torch alone takes more"
    assert found["cpu_seconds"] >= 0
    generates, trains = what != "train", what != "generate"
    parts = [found[name] for name in ("engine_seconds", "records_seconds", "train_seconds")]
    assert sum(parts) == pytest.approx(found["seconds"])
    assert [part > 0 for part in parts] == [generates, generates, trains]
    assert found["trained_tokens"] == (found["tokens"] if trains else 0)
    assert (found["repair_rate"] is not None, found["widened_rate"] is not None) == (generates, generates)
    assert (found["mismatch_kl"] is not None) == trains
    if trains:
        assert 0 <= found["mismatch_kl"] < 1e-4
    if generates:
        assert found["repair_rate"] == found["repaired"] / found["tokens"]


def test_the_same_seed_does_the_same_work(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = []
    for seed in ("1", "1", "2"):
        assert bench("generate", folder, "--json", "--seed", seed, "--prompts", "1") == 0
        found = json.loads(capsys.readouterr().out)
        tokens.append((found["tokens"], found["prompt_tokens"]))
    assert tokens[0] == tokens[1] != tokens[2]


def test_adapters_train_fewer_parameters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("step", folder, "--json", "--lora-rank", "2", "--checkpointing", "on") == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["trained_parameters"] < found["parameters"] / 2
    assert found["trained_tokens"] == found["tokens"]


def test_a_warm_up_leaves_the_weights_as_they_are(folder: Path) -> None:
    spec = bench_spec(folder, group_size=2, max_new_tokens=6)
    policy = Policy.load(folder, spec.bases[0])
    before = policy.weight_bytes()
    with work_bench(
        policy, spec, [[5, 6, 7]], GenerationSettings(), TrainConfig(learning_rate=0.1), threads=1
    ) as ready:
        ready.warm_up()
        assert policy.weight_bytes() == before
        assert ready.optimizer.state, "the optimizer has its memory already"
        ready.run("step")
    assert policy.weight_bytes() != before


def test_a_person_reads_what_ran_and_what_it_took() -> None:
    result = Result(10, 20, 0, 2.0, 5.0, 1.5, 0.5, 0.0, 3.0, 7 * MIB, None, 1, 0.1, 0.2, None)
    lines = table({"policy": "tiny", "group_size": 4}, result).splitlines()
    assert lines[0] == "policy tiny, group size 4"
    rows = {line[:22].strip(): line[22:].strip() for line in lines[1:]}
    assert rows["tokens"] == "10 of 30 with prompts"
    assert (rows["tokens per second"], rows["seconds"]) == ("5.0", "2.00 (CPU 3.00)")
    assert (rows["peak memory"], rows["peak on the card"]) == ("7 MiB", "-")
    assert (rows["repaired positions"], rows["widened intervals"]) == ("1 (10.0000%)", "20.0000%")
    assert rows["mismatch KL"] == "-"


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--max-new-tokens", "500"], 2, "do not fit its context of 128"),
        (["--group-size", "300"], 2, "more than a claim word's 256"),
        (["--prompts", "200"], 2, "200 prompts in groups of 4 are more than a batch holds: 64"),
        (["--device", "abacus"], 1, "does not go to 'abacus'"),
        (["--policy", "/no/such/folder"], 2, "/no/such/folder is no policy: it has no config.json"),
    ],
)
def test_what_cannot_work_is_told_in_words(
    folder: Path, options: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("step", folder, *options) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_memory_is_measured_from_the_block_on() -> None:
    big = bytearray(96 * MIB)
    del big
    with Meter() as empty:
        pass
    with Meter() as full:
        big = bytearray(96 * MIB)
        big[:: 1 << 12] = b"x" * len(big[:: 1 << 12])
        del big
    assert full.taken.peak_bytes - empty.taken.peak_bytes > 90 * MIB
    assert empty.taken.cuda_peak_bytes is None


def test_processes_below_count() -> None:
    code = "x = b'x' * (64 << 20); sum(range(4_000_000)); print('up', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with Meter() as alone:
                pass
            with Meter() as meter:
                child.stdout.readline()
            assert meter.taken.cpu_seconds > 0.02
            assert meter.taken.seconds >= meter.taken.cpu_seconds / 4
            assert alone.taken.cpu_seconds < 10
        finally:
            child.communicate(b"\n")
    with Meter() as after:
        pass
    assert meter.taken.peak_bytes - after.taken.peak_bytes > 48 * MIB


def test_parts_add_up() -> None:
    assert Taken(1, 2, 30, None) + Taken(3, 5, 20, None) == Taken(4, 7, 30, None)
    assert Taken(1, 2, 30, 7) + Taken(3, 5, 20, None) == Taken(4, 7, 30, 7)


WORK = Work("/models/tiny", "Think.", ["1+1?", "2+2?"], 4, 16, 1, 1e-6, 1, 0)


def report(cpu: float, mib: int, **notes: float) -> Report:
    half = Taken(cpu / 2, cpu / 2, mib * MIB, None)
    return Report([Step(half, half, WORK.tokens)], {"beta": 0.0}, {"torch": "2"}, 80, notes)


def reports() -> dict[str, Report]:
    node = {"engine_seconds": [0.5], "records_seconds": [0.5], "repair_rate": 0.0, "widened_rate": 0.0}
    audit = {"engine_seconds": 1.0, "making_seconds": 2.0, "without_model_seconds": 0.02}
    return {
        "node, torch": dataclasses.replace(report(2.0, 1000), notes={**node, "mismatch_kl": 1e-9}),
        "genrl": report(8.0, 2000),
        "TRL": report(3.0, 900),
        "verification, torch": report(0.6, 1, **audit),
    }


def test_the_page_has_the_ratios_and_says_which_aims_are_missed(tmp_path: Path) -> None:
    text = write("scripts/bench --steps 1", WORK, reports(), tmp_path / "benchmarks.md")
    assert (tmp_path / "benchmarks.md").read_text() == text
    assert "Written by `scripts/bench --steps 1`" in text
    rows = {line.split(" | ")[0].removeprefix("| "): line.rstrip(" |").split(" | ") for line in text.splitlines()}
    assert rows["genrl"][4:] == ["16.0", "4.00", "2000", "2.00"]
    assert rows["TRL"][4:] == ["42.7", "1.50", "900", "0.90"]
    assert rows["torch"][1:] == ["1.0", "0.020", "2.00%", "0.3", "30.0%", "15.0%"]
    met = {line.split(" | ")[0]: line.split(" | ")[2] for line in text.splitlines() if line.count(" | ") == 2}
    assert met["| a step at least 3 times as fast as genrl's, per CPU second (node, torch)"] == "yes |"
    assert met["| peak memory below genrl's (node, torch)"] == "yes |"
    assert met["| peak memory below TRL's (node, torch)"] == "**no** |"
    assert met["| verification without the model below 1% of generation, torch"] == "**no** |"
    assert met["| verification with the model below 35% of generation, torch"] == "yes |"


def test_a_report_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(dataclasses.asdict(reports()["node, torch"])))
    assert Report.read(file) == reports()["node, torch"]


def test_a_trainer_that_fails_is_told_in_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(Entry("no_such_trainer", {}), WORK, verbose=False) is None
    assert "No module named sapo_lab.bench.no_such_trainer" in capsys.readouterr().err
