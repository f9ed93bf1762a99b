"""The numbers per day that operators are told: sizes as the code publishes them, and the table of the page."""

from pathlib import Path

import pytest

from sapo_client.policy.lora import LoraOptions
from sapo_client.policy.policy import Policy, PolicyOptions
from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.tiny_policy import tiny_folder, tiny_rule
from sapo_lab.daily import SHAPES, batch_bytes, main, model_of, weights_bytes

HEADER = 200  # bytes for each tensor of a file, about


@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("tied", [False, True])
def test_weights_are_what_a_policy_publishes(tmp_path: Path, rank: int, tied: bool) -> None:
    folder = tiny_folder(tmp_path / "tiny", tied=tied)
    options = PolicyOptions(LoraOptions(rank)) if rank else PolicyOptions()
    policy = Policy.load(folder, tiny_rule(max_rank=8), options=options)
    policy.untouched = False
    real = sum(map(len, policy.publish().blocks))
    plain = Policy.load(folder, tiny_rule()).model
    computed = weights_bytes(plain, rank)
    assert computed < real < computed + HEADER * (2 + 2 * len(list(plain.named_modules())))


def test_the_shapes_are_the_models_that_they_are_called() -> None:
    models = {name: model_of(config) for name, config in SHAPES.items()}
    counted = {name: weights_bytes(model, 0) // 4 for name, model in models.items()}
    assert counted == {"SmolLM2-135M": 134_515_008, "Qwen2.5-0.5B": 494_032_768}


def test_a_batch_grows_by_its_records_and_texts() -> None:
    assert batch_bytes(4, 8, 256) - batch_bytes(4, 8, 255) == 4 * 8 * 24
    assert batch_bytes(8, 8, 64) > 1.9 * batch_bytes(4, 8, 64)


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    printed = capsys.readouterr().out.strip()
    assert printed in (ROOT / "docs" / "operators.md").read_text(encoding="utf-8"), (
        "docs/operators.md: paste `scripts/in-venv -m sapo_lab.daily` again"
    )
