"""`sapo-verify batch` as an outsider runs it, against the kept devnet."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devnet_run import KILL_ROUND, KILLED, Run
from sapo_verifier import Deployment, UnableError, Verdict, open_chain, open_verifier, verify_batch
from sapo_verifier.checks import CHECKS

NAMES = [check.__name__ for check in CHECKS]


def verify(*words: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sapo_verifier", "batch", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def options(run: Run, *, rpc: str = "", base: bool = True, private: bool = True, deployment: Path | None = None) -> Any:
    words = ["--rpc", rpc or run.url, "--deployment", deployment or run.data / "deployment.json"]
    words += ["--base-folder", run.policy] if base else []
    return words + (["--allow-private"] if private else [])


def statuses(done: "subprocess.CompletedProcess[str]") -> dict[str, str]:
    return {outcome["check"]: outcome["status"] for outcome in json.loads(done.stdout)["outcomes"]}


def test_every_check_passes_but_the_one_that_needs_the_model(devnet: Run) -> None:
    done = verify(4, *options(devnet), "--json")
    assert done.returncode == 3, done.stderr
    assert statuses(done) == dict.fromkeys(NAMES, "pass") | {"policy": "unknown"}
    document = json.loads(done.stdout)
    assert document["index"] == 4
    assert document["verdict"].startswith("nothing failed; not checked here: policy")
    assert (document["checks"], document["agreed"], document["final"]) == ("abstain", "unknown", False)
    assert document["words"].startswith("not final yet")
    assert [slot["answer"] is not None for slot in document["slots"]] == [True] * len(document["slots"])
    for slot in document["slots"]:
        assert all(one["claimed"] == one["found"] for one in slot["completions"])


def test_from_python_it_is_the_same(devnet: Run) -> None:
    """One call, and one verifier for several batches; a batch that is not there is no verdict."""
    deployment = Deployment.load(devnet.data / "deployment.json")
    bases = [devnet.policy]
    verified = verify_batch(4, deployment, rpc=devnet.url, base_folders=bases, model=True, allow_private=True)
    assert {result.check: result.status for result in verified.results} == dict.fromkeys(NAMES, "pass")
    assert (verified.batch.index, verified.verdict) == (4, Verdict.ACCEPT)
    with open_chain(deployment, devnet.url) as reader, open_verifier(reader, allow_private=True) as verifier:
        batches = reader.batches_of(verified.batch.round)
        assert verified.batch in batches
        assert {verifier.verify(batch).verdict for batch in batches} == {Verdict.ABSTAIN}, "no base is at hand"
        with pytest.raises(UnableError, match="there is no batch -1"):
            verifier.batch(-1)


def test_the_killed_nodes_batch_passes_and_is_told_in_words(devnet: Run) -> None:
    index = devnet.reader.batch_of(devnet.summary["nodes"][f"node{KILLED}"], KILL_ROUND)
    done = verify(index, *options(devnet))
    assert done.returncode == 3, done.stderr
    assert f"batch {index}: round {KILL_ROUND}, node {devnet.summary['nodes'][f'node{KILLED}']}" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()[1 : len(NAMES) + 1]] == NAMES


def test_without_the_base_the_text_check_is_unknown(devnet: Run) -> None:
    done = verify(0, *options(devnet, base=False), "--json")
    found = statuses(done)
    assert found["text"] == "unknown"
    assert found["sampling"] == found["reward"] == "pass"
    assert "Give its folder with --base-folder" in done.stdout


def test_without_allow_private_nothing_is_fetched(devnet: Run) -> None:
    done = verify(0, *options(devnet, private=False))
    assert done.returncode == 3, "what this machine refuses to ask says nothing about the batch"
    assert "verdict: nothing can be said from here" in done.stdout
    assert "--allow-private" in done.stdout


@pytest.mark.parametrize(("index", "code"), [("15", 3), ("999999", 3), ("-1", 2), (str(1 << 256), 2), ("x", 2)])
def test_a_batch_that_is_not_there(devnet: Run, index: str, code: int) -> None:
    done = verify(*options(devnet), "--", index)
    assert done.returncode == code
    assert index in done.stderr
    assert done.stdout == ""


def test_an_rpc_that_does_not_answer(devnet: Run) -> None:
    done = verify(0, *options(devnet, rpc="http://127.0.0.1:9"))
    assert done.returncode == 3
    assert "127.0.0.1:9" in done.stderr


def test_a_bad_gateway_is_named(devnet: Run) -> None:
    done = verify(0, *options(devnet), "--gateway", "http://nowhere")
    assert done.returncode == 2
    assert "http://nowhere" in done.stderr


def test_a_deployment_file_of_another_network(devnet: Run, tmp_path: Path) -> None:
    foreign = tmp_path / "deployment.json"
    document = json.loads((devnet.data / "deployment.json").read_text())
    foreign.write_text(json.dumps(document | {"chain_id": 1}))
    done = verify(0, *options(devnet, deployment=foreign))
    assert done.returncode == 2
    assert "chain 31337" in done.stderr
    contracts = document["contracts"]
    swapped = contracts | {"rounds": contracts["nodes"], "nodes": contracts["rounds"]}
    foreign.write_text(json.dumps(document | {"contracts": swapped}))
    done = verify(0, *options(devnet, deployment=foreign))
    assert done.returncode == 1
    assert done.stderr.startswith("sapo-verify: ")
    foreign.unlink()
    done = verify(0, *options(devnet, deployment=foreign))
    assert done.returncode == 2
    assert str(foreign) in done.stderr


def test_a_base_with_one_byte_changed_is_not_the_base(devnet: Run, tmp_path: Path) -> None:
    changed = tmp_path / "base"
    shutil.copytree(devnet.policy, changed)
    data = bytearray((changed / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (changed / "model.safetensors").write_bytes(data)
    words = options(devnet, base=False)
    assert statuses(verify(0, *words, "--base-folder", changed, "--json"))["text"] == "unknown"
    words += ["--base-folder", changed, "--base-folder", devnet.policy]
    assert statuses(verify(0, *words, "--json"))["text"] == "pass"
