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
    assert len(facts["transaction"]) == 66
    reader = made.network.reader()
    assert AuditsReader(reader).outcome_of(FALSE).state is BatchState.PROVEN_FALSE
    assert reader.balance(prover) > 1.09 * 10**18
    assert cli.main([*words(made, tmp_path, FALSE), *more]) == 1
    assert "is proven false already" in capsys.readouterr().err
