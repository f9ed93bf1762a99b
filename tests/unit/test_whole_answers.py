"""Answers of style `whole`, from rules to training: a small policy that writes an answer and nothing around it."""

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sapo_client import cli, pocket
from sapo_client.state.report import read_rounds
from sapo_verifier.networks import pocket_spec, read_spec, with_changes
from sapo_verifier.protocol import H
from sapo_verifier.spec import Spec, TaskRule
from sapo_verifier.tasks import TaskWorker, deal, instruction, render, rewards
from sapo_verifier.templates import chat_template

STEPS = 60  # after these it is right now and then
RULE = {"name": "count_bits", "config": {"min_n": 1, "max_n": 255}, "weight": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pocket policy, taught to count bits and to say no more than how many."""
    folder = tmp_path_factory.mktemp("pocket")
    torch.manual_seed(0)
    model, tokenizer = pocket.make_model(), pocket.make_tokenizer()
    items = [pocket.Item(f"O{n}=", str(n.bit_count())) for n in range(1, 256)]
    pupil = pocket.Pupil(model, tokenizer, [items], random.Random("whole"))
    pupil.train(STEPS, pocket.PEAK_RATE, lambda: "{}", lambda line: None)
    model.config.save_pretrained(folder)
    save_file(dict(model.named_parameters()), folder / "model.safetensors", metadata={"format": "pt"})
    pocket.save_tokenizer(tokenizer, folder)
    return folder


def rules(folder: Path, *, answer: str) -> Spec:
    return with_changes(pocket_spec(folder), tasks=[TaskRule.model_validate(RULE)], answer=answer)


def test_what_it_writes_earns_by_these_rules_and_by_no_others(folder: Path, tmp_path: Path) -> None:
    rewarded = {}
    for answer in ("whole", "brackets"):
        spec = tmp_path / f"{answer}.json"
        spec.write_text(json.dumps(rules(folder, answer=answer).to_json()))
        words = ["train", "--policy", str(folder), "--spec", str(spec), "--home", str(tmp_path / answer)]
        assert cli.main([*words, "--rounds", "2", "--i", "4"]) == 0
        rounds = read_rounds(tmp_path / answer)
        assert [report["completions"] for report in rounds] == [32, 32]
        rewarded[answer] = sum(report["reward"] for report in rounds)
        assert (rounds[0]["own_with_advantage"] > 0) == (answer == "whole"), "there is something to learn from"
    assert rewarded["whole"] > 0
    assert rewarded["brackets"] == 0


def test_a_task_is_put_and_scored_with_and_without_the_instruction(folder: Path, tmp_path: Path) -> None:
    """A text template asks for it, or says itself what is wanted; a compact prompt has no room for it."""
    spec = rules(folder, answer="whole")
    (tmp_path / "spec.json").write_text(json.dumps(spec.to_json()))
    assert read_spec(tmp_path / "spec.json") == spec
    with TaskWorker() as worker:
        task = deal(spec, H("silo", 1, 2), "0x" + "11" * 20, 0, worker)
        texts = [task.answer, f" {task.answer}\n", f"<{task.answer}>", f"<answer>{task.answer}</answer>", ""]
        assert rewards(spec, task, texts, worker) == [True, True, False, False, False]
    asked = render(task, chat_template("whole"), "whole")
    assert task.question in asked
    assert instruction("whole") in asked
    assert render(task, "{question} Only the number:", "whole") == f"{task.question} Only the number:"
    assert render(task, "compact", "whole") == task.compact
