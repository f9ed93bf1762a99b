"""Families of models: every pass of ours gives what a plain pass over each sequence gives, or the base is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from families import CONTEXT, LONG, REFUSED, RIGHT, Family, family_folder
from sapo_client.generation import decoding
from sapo_client.generation.decoding import Decoding
from sapo_client.generation.records import make_records
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.pocket import VOCAB
from sapo_client.policy.lora import LoraOptions
from sapo_client.policy.memory import MemoryOptions
from sapo_client.policy.policy import Policy, PolicyOptions
from sapo_devnet.testkit.tiny_policy import tiny_rule
from sapo_verifier import folders
from sapo_verifier.errors import UsageError
from sapo_verifier.intervals import FULL
from sapo_verifier.model.base import BaseLoadError
from sapo_verifier.model.forward import Passage, completion_states, head
from sapo_verifier.model.positions import positions
from sapo_verifier.model.sampling import owned, scaled_cumulative
from sapo_verifier.model.trial import TOLERANCE, distance, plain_logits
from sapo_verifier.networks import unlisted_base

pytestmark = pytest.mark.usefixtures("one_thread")

# Prompt and completion: longer than windows, and than the chunks in which recurrent layers compute.
SHAPES = ((3, 4), (70, 8), (21, 6), (21, 9))
NEW = 6


@pytest.fixture(scope="module", params=RIGHT)
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return loaded(tmp_path_factory.mktemp("families"), request.param, RIGHT[request.param])


def loaded(folder: Path, name: str, family: Family, **options: Any) -> Policy:
    made = family_folder(folder / name, name, family.changes)
    rule = tiny_rule(context=CONTEXT, max_rank=8)
    return Policy.load(made, rule, options=PolicyOptions(**options))


def passages() -> list[Passage]:
    """The last two share a prompt."""
    generator = torch.Generator().manual_seed(3)
    draw = [torch.randint(2, VOCAB, (sum(shape),), generator=generator).tolist() for shape in SHAPES]
    draw[3][: SHAPES[3][0]] = draw[2][: SHAPES[2][0]]
    return [Passage(ids[:prompt], ids[prompt:]) for ids, (prompt, _) in zip(draw, SHAPES, strict=True)]


@torch.no_grad()
def alone(model: Any) -> list[torch.Tensor]:
    """The logits of each completion token, by a plain pass over each sequence."""
    return [plain_logits(model, [*p, *c])[len(p) - 1 : -1] for p, c in passages()]


# --- right -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_records_and_checks_are_those_of_plain_passes(policy: Policy) -> None:
    """One pass makes the records of the producer and the positions of the auditor."""
    plain = alone(policy.model)
    found = head(policy.model, completion_states(policy.model, passages())).split([c for _, c in SHAPES])
    assert max(distance(mine, one) for mine, one in zip(found, plain, strict=True)) < TOLERANCE
    zeros = [[0] * length for _, length in SHAPES]
    for passage, logits, own in zip(
        passages(), plain, positions(policy.model, passages(), zeros, VOCAB, batch_tokens=200), strict=True
    ):
        edges = owned(scaled_cumulative(logits, VOCAB), torch.tensor(passage.completion))
        for (lo, last), position in zip(edges, own, strict=True):
            assert max(abs(lo - position.lo), abs(last - position.last)) < TOLERANCE * FULL


@torch.no_grad()
def test_decoding_with_padding_and_cache_is_a_plain_pass(policy: Policy) -> None:
    """While rows end, and others are there several times."""
    sequences = [[*p, *c] for p, c in passages()]
    plain = [plain_logits(policy.model, sequence) for sequence in sequences]
    rows = [0, 1, 2, 3, 1]
    batch = Decoding(policy.model, [sequences[row][:-4] for row in rows])
    for t in range(4):
        found = batch.logits(slice(None))
        assert max(distance(found[k], plain[row][t - 5]) for k, row in enumerate(rows)) < TOLERANCE
        if t == 1:
            rows = [1, 3, 0]
            batch.keep([4, 3, 0])
        batch.append(torch.tensor([sequences[row][t - 4] for row in rows]))


def test_what_is_generated_needs_no_repair(policy: Policy) -> None:
    prompts = [list(passage.prompt) for passage in passages()]
    keys = [bytes([row]) * 32 for row in range(len(prompts))]
    engine = TorchEngine(policy, NEW)
    records, stats = make_records(engine, policy.model, prompts, keys, vocab=VOCAB, max_new_tokens=NEW)
    assert stats.repaired == 0
    assert stats.positions == sum(map(len, records)) >= len(prompts)


def gradient(policy: Policy, batches: list[list[Passage]]) -> torch.Tensor:
    for parameter in policy.parameters():
        parameter.grad = None
    for batch in batches:
        log_probs = policy.log_probs(batch)
        log_probs.sum().backward()  # type: ignore[no-untyped-call]
    found = [each.grad for each in policy.parameters() if each.grad is not None]
    return torch.cat([each.flatten() for each in found])


def test_gradients_of_a_micro_batch_are_those_of_its_sequences(policy: Policy) -> None:
    whole, parts = gradient(policy, [passages()]), gradient(policy, [[passage] for passage in passages()])
    assert float((whole - parts).norm() / parts.norm()) < TOLERANCE
    for parameter in policy.parameters():
        parameter.grad = None


@pytest.mark.parametrize("name", [name for name in RIGHT if name != "gpt2"])
def test_adapters_and_layers_computed_again_learn_what_is_sampled(tmp_path: Path, name: str) -> None:
    policy = loaded(tmp_path, name, RIGHT[name], lora=LoraOptions(4), memory=MemoryOptions(checkpointing=True))
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    before = alone(policy.model)
    for _ in range(2):
        optimizer.zero_grad()
        (-policy.log_probs(passages()).mean()).backward()
        optimizer.step()
    plain = alone(policy.model)
    assert max(distance(new, old) for new, old in zip(plain, before, strict=True)) > 1e-2
    expected = torch.cat(
        [
            torch.log_softmax(logits[:, :VOCAB], -1).gather(-1, torch.tensor(passage.completion).unsqueeze(-1))
            for logits, passage in zip(plain, passages(), strict=True)
        ]
    ).squeeze(-1)
    found = policy.log_probs(passages())
    assert float((found - expected).detach().abs().max()) < TOLERANCE


def test_a_model_without_linear_layers_has_no_adapters(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no linear layers .* set lora_rank to 0"):
        loaded(tmp_path, "gpt2", RIGHT["gpt2"], lora=LoraOptions(4))


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSED)
def test_other_families_are_refused_before_anything_is_generated(tmp_path: Path, name: str) -> None:
    with pytest.raises(BaseLoadError, match=REFUSED[name].words):
        TorchEngine(loaded(tmp_path, name, REFUSED[name]), NEW)


@pytest.fixture
def nothing_by_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(folders, "REFUSED", {})
    return


@pytest.mark.parametrize("name", sorted(folders.REFUSED))
@pytest.mark.usefixtures("nothing_by_name")
def test_what_is_refused_by_name_would_be_refused_by_its_numbers(tmp_path: Path, name: str) -> None:
    """So the list, which saves the loading, says nothing of families that would work."""
    with pytest.raises(BaseLoadError, match=r"decode|changes logits"):
        TorchEngine(loaded(tmp_path, name, REFUSED[name]), NEW)


def test_a_context_in_which_one_row_changes_the_others_is_refused(tmp_path: Path) -> None:
    """Two sets of frequencies: the longest row of a batch chooses for all of them."""
    folder = family_folder(tmp_path / "phi3", "phi3", LONG)
    with pytest.raises(BaseLoadError, match=r"beyond 40 tokens.*longrope.*has a context of 41; give it 40 in the spec"):
        Policy.load(folder, tiny_rule(context=41))
    model = Policy.load(folder, tiny_rule(context=40)).model
    short, long = passages()[0], passages()[1]
    with torch.no_grad():
        together = head(model, completion_states(model, [short, long]))[: len(short.completion)]
    assert distance(together, alone(model)[0]) > TOLERANCE, "and this is why"
    assert unlisted_base(folder).context == 40


def test_a_model_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = loaded(tmp_path, "llama", RIGHT["llama"])
    TorchEngine(policy, NEW)
    monkeypatch.setattr(decoding, "_decoded_wrong", lambda *_: pytest.fail("tried again"))
    TorchEngine(policy, NEW)


def test_every_family_here_is_in_the_table_of_the_documentation() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text()
    for line in table():
        assert f"\n{line}\n" in page, "\n".join(["docs/settings.md needs:", *table()])


def table() -> list[str]:
    kinds = dict.fromkeys(family.kind for family in [*RIGHT.values(), *REFUSED.values()])
    lines = []
    for kind in kinds:
        cells = []
        for families in (RIGHT, REFUSED):
            cells.append(", ".join(f"`{name}`" for name in sorted(families) if families[name].kind == kind))
        lines.append(f"| {kind} | {cells[0]} | {cells[1]} |")
    return lines
