"""`sapo-verify export` on a real chain and a real daemon, and `sapo-verify check` of the file when both are gone."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.publishers import publishers
from sapo_lab.sweeps.bundles import SHARED
from sapo_verifier import cli
from sapo_verifier.bundles.bundle import open_bundle
from sapo_verifier.checks import CHECKS
from sapo_verifier.facts import BatchFacts

NAMES = [check.__name__ for check in CHECKS]
INDEX = 1


@dataclass
class Exported:
    """A file that was made on a chain that is no more."""

    file: Path
    deployment: Path
    base: Path
    block_hash: str
    facts: BatchFacts
    spoken: str


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("publishers")
    out, capture = tmp_path_factory.mktemp("bundles"), pytest.MonkeyPatch()
    with publishers(folder, [3]) as made:
        made.network.deployment.save(out / "deployment.json")
        options = ["--deployment", out / "deployment.json", "--rpc", made.network.chain.url, "--allow-private"]
        lines: list[str] = []
        capture.setattr("builtins.print", lambda *words, **_: lines.extend(map(str, words)))
        try:
            status = cli.main([*map(str, ["export", INDEX, *options, "-o", out / "batch.car"])])
        finally:
            capture.undo()
        assert status == 0, lines
        reader = made.network.reader()
        batch = reader.batch_at(INDEX)
        beacon = reader.beacon(batch.round)
        assert beacon is not None
        facts = BatchFacts.of(made.network.deployment, batch, beacon)
        head, parameters = reader.round_at(batch.round), made.network.deployment.spec
        with open_bundle(out / "batch.car") as bundle:
            proven = bundle.proven
            block = made.network.chain.w3.eth.get_block(proven.block)
            assert (proven.block_hash, proven.time) == (bytes(block["hash"]), block["timestamp"])
            assert (proven.first, proven.count, proven.acc) == (head.first, head.count, head.acc)
            assert bundle.facts == facts
            assert bundle.spec == parameters
            held = proven.immutables
            contracts = made.network.deployment.contracts
            assert {name: f"0x{held[name]:040x}" for name in ("NODES", "BEACON", "AUDITS")} == {
                "NODES": contracts.nodes, "BEACON": contracts.beacon, "AUDITS": contracts.audits,
            }  # fmt: skip
            chain = parameters.chain
            assert [held[name] for name in ("FIRST_BLOCK", "ROUND_BLOCKS", "DRAWS", "MIN_ACCEPTS", "MIN_REJECTS")] == [
                made.network.deployment.first_block,
                *(chain.round_blocks, chain.draws, chain.min_accepts, chain.min_rejects),
            ]
            assert [held[name] for name in ("GROUP_SIZE", "MAX_SLOTS", "MAX_NEW_TOKENS")] == [
                parameters.group_size, parameters.max_slots, parameters.max_new_tokens,
            ]  # fmt: skip
    (shown,) = re.findall(r"0x[0-9a-f]{64}", "".join(lines))
    return Exported(out / "batch.car", out / "deployment.json", folder, shown, facts, "\n".join(lines))


def check(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, dict[str, Any], str]:
    """Exit status, what it says on standard output as JSON, and the error."""
    status = cli.main(["check", *map(str, words), "--json"])
    shown = capsys.readouterr()
    return status, json.loads(shown.out), shown.err


def test_every_check_that_needs_no_model_passes_offline(exported: Exported, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--block-hash", exported.block_hash, "--deployment", exported.deployment)
    status, found, _ = check(capsys, exported.file, *words)
    assert status == 0
    statuses = {outcome["check"]: outcome["status"] for outcome in found["outcomes"]}
    assert statuses == dict.fromkeys(NAMES, "pass") | {"text": "unknown", "policy": "unknown"}, "no base is at hand"
    assert (found["index"], found["node"], found["block_hash"]) == (INDEX, exported.facts.node, exported.block_hash)
    assert "the one that you gave" in found["trusts"][0]


def test_in_words_it_says_what_it_trusts(exported: Exported, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(exported.file)]) == 0
    shown = capsys.readouterr().out
    assert f"batch {INDEX}: round 1, node {exported.facts.node}" in shown
    assert "this trusts:" in shown
    assert exported.block_hash in shown
    assert "compare it with a source that you trust" in shown
    assert exported.facts.rounds in shown


def test_another_block_hash_and_another_network_are_refused(
    exported: Exported, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found, error = check(capsys, exported.file, "--block-hash", "0x" + "ab" * 32)
    assert (status, found["status"]) == (1, 1)
    assert "not by the one that you trust" in error
    made = json.loads(exported.deployment.read_text())
    made["contracts"]["rounds"] = "0x" + "ab" * 20
    (tmp_path / "other.json").write_text(json.dumps(made))
    status, _, error = check(capsys, exported.file, "--deployment", tmp_path / "other.json")
    assert status == 1
    assert "your network's are" in error
    assert check(capsys, exported.file, "--block-hash", "0x12")[0] == 2


def test_the_second_program_proves_the_real_chains_block_too(exported: Exported) -> None:
    command = [sys.executable, "-I", "-S", ROOT / "scripts" / "reverify", exported.file]
    done = subprocess.run([*command, "--block-hash", exported.block_hash], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    first, *rows, last = done.stdout.splitlines()
    assert first == f"batch {INDEX}: chain 31337, Rounds {exported.facts.rounds}, round {exported.facts.round}"
    assert [row.split() for row in rows] == [[check.__name__, "pass"] for check in SHARED]
    assert last.endswith(exported.block_hash)
