"""`sapo-verify prove` with real batches on a real chain, fetched from a real daemon."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sapo_devnet.testkit import publishers as publishing
from sapo_devnet.testkit.formula import honest
from sapo_devnet.testkit.publishers import Publishers, publishers
from sapo_verifier import cli, keystore
from sapo_verifier.chain.audits import AuditsReader, BatchState
from sapo_verifier.objects import Record
from sapo_verifier.schedule import FINAL_AFTER
from schemas import assert_fits

HONEST, FALSE, WRONG = 0, 1, 2  # indices


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publishers]:
    """Round 1 has an honest batch; round 3 one with a false record, and one whose claim is wrong."""
    with publishers(tmp_path_factory.mktemp("publishers"), [1, 2]) as world:
        yield world


@pytest.fixture(scope="module", autouse=True)
def bent(monkeypatch_module: pytest.MonkeyPatch) -> None:
    honest_batch = publishing._batch

    def batch(made: Publishers, node: str, round_: int, beacon: bytes):  # type: ignore[no-untyped-def]
        if round_ == 1:
            return honest_batch(made, node, round_, beacon)
        draft = honest(made.worker, node=node, round_=round_, beacon=beacon, spec=made.network.spec)
        draft.facts = replace(draft.facts, rounds=made.network.deployment.contracts.rounds)
        if node == made.nodes[0]:
            draft.slots[1].records[2][0] = Record(draft.slots[1].records[2][0].token, 1, 0)
        else:
            draft.claim(0, 0, not draft.claimed(0, 0))
        return draft.seal()

    monkeypatch_module.setattr(publishing, "_batch", batch)


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def words(made: Publishers, folder: Path, index: int) -> list[str]:
    made.network.deployment.save(folder / "deployment.json")
    where = ["--deployment", str(folder / "deployment.json"), "--rpc", made.network.chain.url, "--allow-private"]
    return ["prove", str(index), *where]


@pytest.mark.parametrize(("index", "why"), [(HONEST, "hold what they must"), (WRONG, "the check reward failed")])
def test_nothing_to_prove(
    made: Publishers, tmp_path: Path, capsys: pytest.CaptureFixture[str], index: int, why: str
) -> None:
    assert cli.main(words(made, tmp_path, index)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert why in err


def test_a_batch_that_does_not_exist(made: Publishers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words(made, tmp_path, 77)) == 3
    assert "there is no batch 77" in capsys.readouterr().err


def test_the_proof_is_shown(made: Publishers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*words(made, tmp_path, FALSE), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert_fits("prove", facts)
    assert (facts["proof"], facts["slot"], facts["completion"], facts["position"]) == ("record", 1, 2, 0)
    assert (int(facts["lo"], 16), int(facts["last"], 16)) == (1, 0)
    assert 50_000 < facts["gas"] < 400_000
    assert len(facts["calldata"]) == 2 + 2 * facts["calldata_bytes"]
    assert facts["reward"] == "0.1"
    assert cli.main(words(made, tmp_path, FALSE)) == 0
    out = capsys.readouterr().out
    assert "proof of a false record at slot 1, completion 2, position 0" in out
    assert f"u     {facts['u']}" in out


def test_sending_needs_a_key(made: Publishers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*words(made, tmp_path, FALSE), "--send"]) == 2
    assert "--keystore FILE" in capsys.readouterr().err
    missing = str(tmp_path / "none.json")
    keystore.write_random_password(tmp_path / "password")
    more = ["--send", "--keystore", missing, "--password-file", str(tmp_path / "password")]
    assert cli.main([*words(made, tmp_path, FALSE), *more]) == 2
    assert "there is no keystore at" in capsys.readouterr().err


def test_the_proof_is_sent(made: Publishers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keystore.write_random_password(tmp_path / "password")
    password = keystore.read_password(tmp_path / "password")
    prover = keystore.create(tmp_path / "key.json", password, work_factor=keystore.LIGHT_WORK_FACTOR)
    more = ["--send", "--keystore", str(tmp_path / "key.json"), "--password-file", str(tmp_path / "password")]
    chain = made.network.chain
    chain.rpc("evm_setAutomine", True)
    assert cli.main([*words(made, tmp_path, FALSE), *more]) == 1
    assert "Traceback" not in capsys.readouterr().err, "it has no coins"
    chain.rpc("anvil_setBalance", prover, hex(10**18))
    assert cli.main([*words(made, tmp_path, FALSE), *more, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert_fits("prove", facts)
    assert len(facts["transaction"]) == 66
    reader = made.network.reader()
    assert AuditsReader(reader).outcome_of(FALSE).state is BatchState.PROVEN_FALSE
    assert reader.balance(prover) > 1.09 * 10**18
    assert cli.main([*words(made, tmp_path, FALSE), *more]) == 1
    assert "is proven false already" in capsys.readouterr().err


def test_a_round_says_why_a_batch_is_void_and_that_false_work_was_stopped(
    made: Publishers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the proof, and long enough after the rounds that they are final."""
    rest = words(made, tmp_path, 0)[2:]
    made.network.mine_to_round(3 + FINAL_AFTER)
    assert cli.main(["round", "1", *rest, "--json"]) == 3, "without the base not every check can be run"
    (batch,) = json.loads(capsys.readouterr().out)["batches"]
    assert (batch["state"], batch["why_void"]) == ("void", f"its node was slashed for batch {FALSE}")
    assert cli.main(["round", "3", *rest, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert_fits("round", report)
    false, wrong = report["batches"]
    assert (false["state"], false["checks"], false["agreed"]) == ("proven false", "reject", "agree")
    assert (wrong["state"], wrong["checks"], wrong["agreed"]) == ("void", "reject", "agree")
    assert wrong["why_void"] == "too few accepted: 0 of 0 in stage 1, and nobody revealed in stage 2"
    assert cli.main(["round", "3", *rest, "--strict"]) == 1
    capsys.readouterr()
    assert cli.main(["batch", str(FALSE), *rest]) == 0
    assert "agree: the network's word is proven false, and it is false: sampling" in capsys.readouterr().out


def test_a_node_that_was_slashed_has_that_in_its_history(
    made: Publishers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = [word for word in words(made, tmp_path, 0)[2:] if word != "--allow-private"]
    assert cli.main(["node", made.nodes[0], *rest, "--json"]) == 0
    history = json.loads(capsys.readouterr().out)
    assert_fits("node", history)
    assert (history["state"], history["bond"]) == ("slashed", 0)
    assert [batch["state"] for batch in history["batches"]] == ["void", "proven false"]
    assert [each["event"] for each in history["movements"]] == ["NodeRegistered", "NodeProvenFalse", "NodeSlashed"]
    assert [pay["total"] for pay in history["pays"]] == [0, 0]
    assert cli.main(["node", made.nodes[0], *rest]) == 0
    assert f"proved a false record in batch {FALSE} of round 3" in capsys.readouterr().out
