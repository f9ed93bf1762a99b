"""The library: its page's programs run as they stand and learn, runs repeat exactly, wrong uses are told in words."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import sapo_client as sapo
from answering import chat_folder
from sapo_client.generation.groups import GroupsError
from sapo_client.pocket import EOS_ID
from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier.model.base import BaseLoadError
from sapo_verifier.networks import chat_base, unlisted_base

pytestmark = pytest.mark.usefixtures("one_thread")

PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROMPTS = ["2+3=", "7+1="]


def short_folder(folder: Path) -> Path:
    """A tiny model that ends a text after two or three tokens, so that a hundred rounds take seconds."""
    tiny_folder(folder, width=64)
    weights = load_file(folder / "model.safetensors")
    constant = 0  # a place of the residual stream that every token sets, and only the end token's row reads
    weights["model.embed_tokens.weight"][:, constant] = 3.0
    weights["lm_head.weight"][:, constant] = 0.0
    weights["lm_head.weight"][EOS_ID] = 0.0
    weights["lm_head.weight"][EOS_ID, constant] = 2.6
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return short_folder(tmp_path_factory.mktemp("library") / "model")


@pytest.fixture(scope="module")
def policy(folder: Path) -> sapo.Policy:
    """Not to be trained."""
    return sapo.Policy.load(folder)


def digits(_: int, text: str) -> float:
    return sum(character.isdigit() for character in text) / 8 - 0.5


def groups_of(policy: sapo.Policy, **changes: Any) -> list[sapo.Group]:
    return sapo.generate_groups(policy, **{"prompts": PROMPTS, "group_size": 4, "reward": digits, **changes})


def trained(folder: Path, rounds: int = 3, seed: int = 0, options: sapo.PolicyOptions | None = None) -> sapo.Policy:
    policy = sapo.Policy.load(folder, options=options)
    config = sapo.TrainConfig()
    optimizer = sapo.make_optimizer(policy, config)
    for round_ in range(rounds):
        sapo.train_step(policy, optimizer, groups_of(policy, seed=seed, round_=round_), config)
    return policy


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_s_programs_run_as_they_stand_and_the_first_one_learns(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    exec(BLOCKS[0], names)  # noqa: S102 - the project's own page
    score: Callable[[int, str], float] = names["score"]
    rewards: list[float] = []

    def scored(prompt_index: int, text: str) -> float:
        rewards.append(score(prompt_index, text))
        return rewards[-1]

    names["score"] = scored
    exec(BLOCKS[1], names)  # noqa: S102
    assert len(rewards) == 100 * 4 * 8
    third = len(rewards) // 3
    first, last = sum(rewards[:third]) / third, sum(rewards[-third:]) / third
    assert first < 0.15
    assert last > first + 0.15
    for block in BLOCKS[2:]:
        exec(block, names)  # noqa: S102
    assert names["pool"] == names["from_json"](names["to_json"](names["own"]), "another")
    assert [group.samples for group in names["pool"]] == [group.samples for group in names["own"]]
    assert sapo.Policy.load(tmp_path / "trained").weights().keys() == names["policy"].weights().keys()


def test_the_page_names_everything_that_is_public() -> None:
    table = PAGE.split("## What is public")[1]
    assert set(sapo.__all__) <= set(re.findall(r"`(\w+)`", table))


# --- the package -----------------------------------------------------------------------------------------------------


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_loads_nothing_heavy_and_the_library_no_chain() -> None:
    loaded = python(
        "import sys, json, sapo_client as sapo; dir(sapo)\n"
        "heavy = ('torch', 'transformers', 'pydantic', 'web3', 'aiohttp', 'reasoning_gym')\n"
        "before = [name for name in heavy if name in sys.modules]\n"
        "for name in sapo.__all__: getattr(sapo, name)\n"
        "print(json.dumps([before, [name for name in heavy if name in sys.modules]]))"
    )
    assert json.loads(loaded) == [[], ["torch", "transformers", "pydantic"]]


def test_public_names_are_the_modules_own() -> None:
    assert sapo.__all__ == sorted(sapo.__all__)
    for name in sapo.__all__:
        assert getattr(sapo, name).__name__ == name
        assert getattr(sapo, name).__doc__
    assert set(sapo.__all__) <= set(dir(sapo))
    with pytest.raises(AttributeError, match="has no attribute 'polciy'"):
        sapo.polciy  # type: ignore[attr-defined]  # noqa: B018


def test_without_torch_a_name_says_what_to_install() -> None:
    said = python(
        "import sys; sys.modules['torch'] = None\n"
        "import sapo_client as sapo\n"
        "try: sapo.Policy\n"
        "except sapo.SapoError as error: print(error)"
    )
    assert said.startswith("this installation has no torch, and sapo_client.Policy needs it")
    assert "sapo-network[node]" in said


# --- loading a folder ------------------------------------------------------------------------------------------------


def test_a_folder_is_measured_as_for_a_spec(tmp_path: Path) -> None:
    folder = chat_folder(tmp_path / "chat")
    listed, found = chat_base(folder, "chat"), sapo.Policy.load(str(folder)).base
    assert (found.vocab, found.eos, found.context) == (listed.vocab, listed.eos, listed.context) == (258, [257], 2048)
    assert sapo.Policy.load(folder).base == found == unlisted_base(folder)


def test_a_large_file_in_the_folder_is_not_hashed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sapo_verifier.networks.digest_of_folder", lambda _: pytest.fail("the folder was hashed"))
    assert unlisted_base(folder).digest == bytes(32)


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        ("config.json", r"config\.json cannot be read: No such file .*give the folder of a model"),
        ("tokenizer.json", r"has no tokenizer\.json"),
        ("model.safetensors", "does not load as a model"),
    ],
)
def test_a_folder_that_lacks_a_file_is_told_so(tmp_path: Path, lacking: str, words: str) -> None:
    folder = chat_folder(tmp_path / "chat")
    (folder / lacking).unlink()
    with pytest.raises(sapo.SapoError, match=words):
        sapo.Policy.load(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"eos_token_id": None}, r"config\.json needs eos_token_id;"),
        ({"vocab_size": None, "max_position_embeddings": None}, "needs max_position_embeddings and vocab_size;"),
        ({"eos_token_id": [257, 258]}, r"names \[257, 258\] as end tokens .* its ids go from 0 to 257"),
        ({"eos_token_id": "</s>"}, "as end tokens"),
    ],
)
def test_a_config_that_lacks_something_is_told_so(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    folder = chat_folder(tmp_path / "chat")
    (folder / "generation_config.json").unlink(missing_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(sapo.SapoError, match=words):
        sapo.Policy.load(folder)


@pytest.mark.parametrize(("text", "words"), [("{", "is not JSON"), ("[1]", "is no JSON object")])
def test_a_config_that_is_no_object_is_told_so(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(sapo.SapoError, match=words):
        sapo.Policy.load(tmp_path)


def test_what_is_no_folder_is_told_so_and_a_path_is_never_asked_for_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sapo_client.policy.hub._download", lambda *_: pytest.fail("the hub was asked"))
    with pytest.raises(sapo.SapoError, match="no folder, and no model's name"):
        sapo.Policy.load("./nothing")
    with pytest.raises(sapo.SapoError, match="there is no folder models/mine"):
        sapo.Policy.load(Path("models/mine"))
    with pytest.raises(BaseLoadError, match="does not load as a model"):
        sapo.Policy.load(tmp_path, unlisted_base(chat_folder(tmp_path / "chat")))


# --- groups ----------------------------------------------------------------------------------------------------------


def test_a_group_is_what_the_policy_sampled_with_its_log_probabilities(policy: sapo.Policy) -> None:
    seen: list[tuple[int, str]] = []

    def reward(prompt_index: int, text: str) -> float:
        seen.append((prompt_index, text))
        return len(seen)

    groups = groups_of(policy, reward=reward, round_=7, max_new_tokens=20)
    assert [(g.round, g.index, g.slot, g.external) for g in groups] == [(7, None, 0, False), (7, None, 1, False)]
    samples = [sample for group in groups for sample in group.samples]
    assert [sample.reward for sample in samples] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert seen == [(i // 4, policy.text(sample.ids)) for i, sample in enumerate(samples)]
    for sample in samples:
        assert len(sample.ids) <= 20
        assert EOS_ID not in sample.ids[:-1]
        assert len(sample.ids) == 20 or sample.ids[-1] == EOS_ID
    for group, prompt in zip(groups, PROMPTS, strict=True):
        assert all(sample.prompt_ids == policy.tokenizer.prompt(prompt) for sample in group.samples)
    sampling = [value for sample in samples for value in sample.sampling_logprobs or []]
    selected = sapo.select_samples(groups, "as-own", policy.base.context).trained
    found = policy.log_probs([each.passage for each in selected])
    assert sampling == pytest.approx(found.tolist(), abs=1e-4)


def test_runs_repeat_and_seeds_rounds_prompts_and_completions_differ(policy: sapo.Policy) -> None:
    def ids(**changes: Any) -> list[list[int]]:
        groups = groups_of(policy, prompts=["2+3=", "2+3="], **changes)
        return [list(sample.ids) for group in groups for sample in group.samples]

    torch.manual_seed(1)
    first = ids()
    torch.manual_seed(2)
    assert ids() == first
    assert first[:4] != first[4:]
    assert len({tuple(completion) for completion in first}) > 4
    assert len({str(found) for found in (first, ids(seed=1), ids(round_=1), ids(seed=1, round_=1))}) == 4


def test_training_repeats_bit_for_bit(folder: Path) -> None:
    one = trained(folder).weight_bytes()
    assert trained(folder).weight_bytes() == one
    assert trained(folder, seed=1).weight_bytes() != one


def test_prompts_may_be_token_ids(policy: sapo.Policy) -> None:
    ids = [policy.tokenizer.prompt(prompt) for prompt in PROMPTS]
    assert groups_of(policy, prompts=ids) == groups_of(policy)


def test_adapters_of_any_rank_learn_and_one_engine_sees_every_step(folder: Path) -> None:
    policy = sapo.Policy.load(folder, options=sapo.PolicyOptions(lora=sapo.LoraOptions(rank=100)))
    config = sapo.TrainConfig(learning_rate=0.01)
    optimizer = sapo.make_optimizer(policy, config)
    engine = sapo.TorchEngine(policy, 64)
    before = groups_of(policy)
    sapo.train_step(policy, optimizer, before, config)
    after = groups_of(policy, engine=engine)
    assert after == groups_of(policy) != before
    assert trained(folder, options=sapo.PolicyOptions(lora=sapo.LoraOptions(rank=2))).adapters is not None


def test_another_tokenizer_with_special_tokens(tmp_path: Path) -> None:
    policy = sapo.Policy.load(chat_folder(tmp_path / "chat"))
    prompt = "<|im_start|>user\nA digit, ä or 5?<|im_end|>\n<|im_start|>assistant\n"
    (group,) = groups_of(policy, prompts=[prompt], reward=lambda _, text: float(text.strip("<>") or 0), group_size=8)
    assert [list(group.samples[0].prompt_ids).count(token) for token in (256, 257)] == [2, 1]
    assert {policy.text(sample.ids) for sample in group.samples} <= {f"<{digit}>" for digit in "12345678"}
    assert all(sample.ids[-1] == 257 for sample in group.samples)
    assert sapo.has_advantage(group)


# --- wrong uses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "1", [1.0], 10**400])
def test_a_reward_that_is_no_finite_number_is_told_with_its_text(policy: sapo.Policy, value: object) -> None:
    with pytest.raises(GroupsError, match=r"reward\(0, '.*'\) gave .*must give a finite number"):
        groups_of(policy, reward=lambda *_: value)


@pytest.mark.parametrize("value", [True, 3, -2.5, torch.tensor(0.25)])
def test_any_finite_number_is_a_reward(policy: sapo.Policy, value: Any) -> None:
    (sample, *_) = groups_of(policy, reward=lambda *_: value)[0].samples
    assert type(sample.reward) is float
    assert sample.reward == float(value)


def test_what_the_reward_raises_comes_through(policy: sapo.Policy) -> None:
    with pytest.raises(ZeroDivisionError):
        groups_of(policy, reward=lambda *_: 1 / 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompts": []}, "at least one text"),
        ({"prompts": "2+3="}, "must be a list"),
        ({"prompts": ["2+3=", "1" * 65]}, "prompt 1 has 65 tokens; .* more than the model's context of 128"),
        ({"prompts": [""]}, "cannot spell"),
        ({"prompts": ["ä="]}, "cannot spell"),
        ({"prompts": [[4, 5], []]}, "prompt 1 needs at least one token id"),
        ({"prompts": [[4, 60]]}, "each from 0 to 59"),
        ({"group_size": 1}, "group_size is 1; an advantage needs at least 2"),
        ({"max_new_tokens": 0}, "at least 1 token"),
        ({"seed": -1}, "seed is -1"),
        ({"round_": 2**256}, "below 2"),
    ],
)
def test_what_cannot_be_generated_is_told_in_words(policy: sapo.Policy, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(sapo.SapoError, match=words):
        groups_of(policy, **changes)


def test_a_prompt_may_fill_the_context_with_its_completion(policy: sapo.Policy) -> None:
    assert len(groups_of(policy, prompts=["1" * 64])) == 1


class Nines(sapo.TorchEngine):
    """Completions that never end by themselves."""

    def generate(self, prompts, prefixes, keys):  # type: ignore[no-untyped-def]
        return [[5] * 9 for _ in prompts]


def test_an_engine_for_longer_completions_is_told(policy: sapo.Policy) -> None:
    engine = Nines(policy, 9)
    with pytest.raises(GroupsError, match="gave 9 tokens where max_new_tokens is 8"):
        groups_of(policy, engine=engine, max_new_tokens=8)
