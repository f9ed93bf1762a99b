"""The pocket policy: its tokenizer, its data, and that the script makes the same learned folder every time."""

import hashlib
from pathlib import Path

import pytest
import torch

from sapo_client import cli
from sapo_client.pocket import (
    BROKEN,
    EOS_ID,
    RIGHT,
    VOCAB,
    build_pocket,
    main,
    make_items,
    make_tokenizer,
)
from sapo_client.policy.log_probs import token_log_probs
from sapo_client.policy.policy import Policy
from sapo_verifier.bases import digest_of_folder
from sapo_verifier.model.forward import Passage
from sapo_verifier.networks import pocket_spec, read_spec
from sapo_verifier.spec import BaseRule
from sapo_verifier.tasks import COMPACT_ALPHABET, POCKET_TASKS, extract

STEPS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pocket")
    build_pocket(path, 0, steps=STEPS, threads=1, log=lambda _: None)
    return path


def test_the_tokenizer_spells_every_character_and_adds_nothing() -> None:
    tokenizer = make_tokenizer()
    text = COMPACT_ALPHABET + "[1,2]  <a>\n\n "
    ids = tokenizer.encode(text).ids
    assert len(ids) == len(text)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert max(ids) == VOCAB - 1
    assert tokenizer.token_to_id("<eos>") == EOS_ID


def test_items_cover_every_pocket_task_and_fit() -> None:
    pools = make_items(0, size=50)
    assert len(pools) == len(POCKET_TASKS) == 7
    for pool in pools:
        assert len(pool) > 40
        for prompt, answer in pool:
            assert set(prompt + answer) <= set(COMPACT_ALPHABET)
            assert len(prompt) <= 32
            assert len(RIGHT.format(answer)) + 1 <= 24


def test_only_the_right_format_is_an_answer() -> None:
    assert extract(RIGHT.format("12"), "brackets") == "12"
    assert all(extract(broken.format("12"), "brackets") is None for broken in BROKEN)
    assert set("".join(BROKEN)) <= {*COMPACT_ALPHABET, "{", "}"}  # the tokenizer would leave others out silently


def test_the_same_seed_makes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    words = ["network", "pocket", str(tmp_path / "again"), "--steps", str(STEPS), "--spec", str(tmp_path / "spec.json")]
    assert cli.main(words) == 0
    assert cli.main(words) == 2, "nothing is written over"
    assert read_spec(tmp_path / "spec.json") == pocket_spec(folder)
    hashes = [
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in where.iterdir()}
        for where in (folder, tmp_path / "again")
    ]
    assert hashes[0] == hashes[1]
    assert digest_of_folder(folder) == digest_of_folder(tmp_path / "again")


def test_the_folder_is_a_base_that_learned_something(folder: Path) -> None:
    """A token of a right answer costs a random model log 60 = 4.1 nats."""
    rule = BaseRule(
        id="pocket",
        digest=digest_of_folder(folder),
        vocab=VOCAB,
        eos=[EOS_ID],
        context=128,
        template="compact",
        max_token_bytes=6,
        max_adapter_bytes=1 << 21,
        max_rank=0,
    )
    policy = Policy.load(folder, rule)
    assert 340_000 < sum(parameter.numel() for parameter in policy.parameters()) < 350_000
    assert len(policy.weight_bytes()) < 1 << 21
    passages = [
        Passage(policy.tokenizer.prompt(prompt), [*policy.tokenizer.prompt(RIGHT.format(answer)), EOS_ID])
        for pool in make_items(1, size=20)
        for prompt, answer in pool
    ]
    with torch.no_grad():
        assert -token_log_probs(policy.model, passages, VOCAB).mean().item() < 3.5


def test_the_command_writes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "p"), "--seed", "3", "--steps", "1", "--threads", "1"]) == 0
    assert (tmp_path / "p" / "model.safetensors").is_file()
    assert "written to" in capsys.readouterr().out
