"""The experiment's swarm: the product's own numbers, repeatable, and everything measured that the table shows."""

import random
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from experiments import TASKS, ground, taught_folder
from sapo_client.batches.auditing import usable
from sapo_client.batches.ingest import training_groups
from sapo_client.batches.publish import NO_CHAIN, check_own, make_batch
from sapo_client.generation.groups import NOBODY
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.node.learner import Learner
from sapo_client.policy.policy import Policy
from sapo_client.training.groups import has_advantage
from sapo_devnet.testkit.tiny_policy import tiny_policy
from sapo_lab.experiment.commands import STUDIES, main
from sapo_lab.experiment.configurations import QUICK, TABLE
from sapo_lab.experiment.others import other_tokenizer, smaller
from sapo_lab.experiment.plot import draw as plot
from sapo_lab.experiment.poison import arm
from sapo_lab.experiment.results import COLUMNS, Rows, curves, markdown, read_csv, row_of, write_csv
from sapo_lab.experiment.runner import Ground, run
from sapo_lab.experiment.runs import check
from sapo_lab.experiment.setting import Draw, Setting
from sapo_lab.experiment.stacked import generate_stacked, stackable
from sapo_lab.experiment.studies import study
from sapo_lab.experiment.swarm import Swarm, _distance, address, make_members, train_config
from sapo_lab.experiment.tasks import RememberingWorker
from sapo_verifier import protocol
from sapo_verifier.audit import Audit
from sapo_verifier.checks import check_batch
from sapo_verifier.facts import BatchFacts
from sapo_verifier.model.forward import Passage
from sapo_verifier.tasks import TaskWorker

SMALL = Setting(own_groups=3, external_groups=2, nodes=3, rounds=3, learning_rate=1e-3)


@pytest.fixture(scope="module")
def worker() -> Iterator[RememberingWorker]:
    with RememberingWorker() as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taught_folder(tmp_path_factory.mktemp("taught") / "policy")


@pytest.fixture(scope="module")
def laid(worker: RememberingWorker, folder: Path) -> Ground:
    return ground(worker, folder)


def swarm_of(setting: Setting, laid: Ground, **options: object) -> Swarm:
    members = make_members(
        setting,
        laid.spec,
        lambda number: laid.policy(number, setting.seed),
        lambda policy: TorchEngine(policy, laid.spec.max_new_tokens),
    )
    arm(setting, members, laid.worker)
    return Swarm(setting, members, laid.worker, **options)  # type: ignore[arg-type]


# --- the product's numbers -------------------------------------------------------------------------------------------


def test_a_node_of_the_swarm_is_a_node_of_sapo_run_number_for_number(laid: Ground, folder: Path, tmp_path: Path):
    """One node plays beside the swarm with what `sapo run` is made of: its own engine and worker, every check made
    again, Learner with its checkpoints. After each round its weights are the swarm's, byte by byte."""
    setting = replace(SMALL, external_groups=4)
    swarm = swarm_of(setting, laid)
    twin, me = swarm.members[1], address(1)
    policy = Policy.load(folder, laid.spec.bases[0])
    learner = Learner(policy, train_config(setting), tmp_path, f"{setting.seed}/{me}")
    learner.resume()
    trained_on = 0
    with TaskWorker() as worker:
        for round_ in range(setting.rounds):
            offered = []
            for past in range(max(0, round_ - laid.spec.pool_rounds), round_):
                batches = swarm.batches[past]
                start = protocol.window_start(swarm.beacon(past + 1), me, 1, len(batches), 1)
                for position in protocol.window(start, len(batches), 1, laid.spec.chain.draws):
                    seen = batches[position].audit
                    audit = Audit(seen.facts, laid.spec, seen.blocks, worker, lambda _: policy.tokenizer)
                    assert usable(check_batch(audit), policy_check=False)
                    offered += training_groups(audit, policy, external=True, known=audit.leaves)
            (played,) = [each for each in swarm.play(round_) if each.node == me]

            digest = learner.published.digest
            dealt = BatchFacts.dealt(NO_CHAIN, NOBODY, round_, me, swarm.beacon(round_), digest, setting.slots)
            batch = make_batch(laid.spec, dealt, policy, worker)
            audit = check_own(laid.spec, batch, learner.published.manifest, policy, worker)
            own = training_groups(audit, policy, external=False)
            learner.train(round_, own, offered)
            assert learner.learned["training"] == asdict(played.stats)
            assert (batch.stats.positions, batch.facts.claim.bit_count()) == (played.tokens, played.right)
            assert policy.weight_bytes() == twin.policy.weight_bytes()
            trained_on += played.counts.external_used
    assert trained_on >= 4, "the last round has to have external groups, or nothing was compared"
    assert not policy.untouched


def test_stacked_generation_gives_the_tokens_of_the_product_s_engine(tmp_path: Path):
    """Two policies, prompts of different lengths, completions that end early and at the limit."""
    policies = [tiny_policy(tmp_path / str(seed), seed=seed) for seed in (1, 2)]
    rng = random.Random(0)
    prompts = [[[rng.randrange(5, 50) for _ in range(rng.randrange(1, 12))] for _ in range(20)] for _ in policies]
    keys = [[rng.randbytes(32) for _ in range(20)] for _ in policies]
    found = generate_stacked(
        [policy.model for policy in policies], prompts, keys, vocab=policies[0].base.vocab, eos=[1], max_new_tokens=12
    )
    for policy, of_prompts, of_keys, completions in zip(policies, prompts, keys, found, strict=True):
        assert completions == TorchEngine(policy, 12).generate(of_prompts, [[]] * 20, of_keys)
    lengths = {len(completion) for completions in found for completion in completions}
    assert 12 in lengths
    assert len(lengths) > 3


class Idle:
    """An engine that nobody should ask."""

    def generate(self, prompts: object, prefixes: object, keys: object) -> list[list[int]]:
        raise AssertionError("asked to generate")

    def sleep(self) -> None:
        pass


def test_nodes_that_can_be_stacked_are(laid: Ground):
    members = make_members(SMALL, laid.spec, lambda number: laid.policy(number, 0), lambda _: Idle())
    assert len(Swarm(SMALL, members, laid.worker).play(0)) == SMALL.nodes
    with pytest.raises(AssertionError, match="asked"):
        Swarm(SMALL, members, laid.worker, stack=False).play(1)


def test_only_models_of_one_shape_are_stacked(tmp_path: Path):
    one, tied = tiny_policy(tmp_path / "one"), tiny_policy(tmp_path / "tied", tied=True)
    assert stackable([one.model, one.model])
    assert not stackable([one.model, tied.model])
    assert not stackable([one.model, tiny_policy(tmp_path / "half").model.to(torch.bfloat16)])


def test_a_worker_that_remembers_says_what_the_worker_says(tmp_path: Path):
    rule, file = TASKS[1], tmp_path / "tasks.sqlite"
    answers = ["1", "2", "3", "1"]
    with TaskWorker() as plain, RememberingWorker(file) as remembering:
        entry, scores = plain.entry(rule.name, rule.config, 7), plain.scores(rule.name, rule.config, 7, answers)
        assert remembering.entry(rule.name, rule.config, 7) == entry
        assert remembering.scores(rule.name, rule.config, 7, answers[:2]) == scores[:2]
        assert remembering.scores(rule.name, rule.config, 7, answers) == scores
    with RememberingWorker(file) as again:
        assert again.entry(rule.name, rule.config, 7) == entry
        assert again.scores(rule.name, rule.config, 7, answers) == scores
        assert again.pid is None, "what is in the file needs no subprocess"


# --- repeatable ------------------------------------------------------------------------------------------------------


def numbers(setting: Setting, laid: Ground) -> list[object]:
    result = run(setting, laid)
    return [{**row, "seconds": 0} for row in result["rounds"]] + [result["held_out"]]


def test_only_what_a_node_recomputed_has_p_theirs(laid: Ground):
    """Of a batch of 24 completions one. The groups are the same ones."""
    found = {}
    for spot in (0, 1):
        swarm = swarm_of(replace(SMALL, spot=spot), laid)
        swarm.play(0)
        found[spot] = [sample for group in swarm.pool(swarm.members[0], 1) for sample in group.samples]
    assert [sample.ids for sample in found[0]] == [sample.ids for sample in found[1]]
    known = {spot: sum(sample.sampling_logprobs is not None for sample in of) for spot, of in found.items()}
    batches = SMALL.nodes - 1
    assert known == {0: len(found[0]), 1: batches}


def test_a_seed_decides_every_number(laid: Ground):
    setting = replace(SMALL, rounds=2)
    first = numbers(setting, laid)
    assert numbers(setting, laid) == first
    assert numbers(replace(setting, seed=1), laid) != first


def test_ten_rounds_give_every_column(laid: Ground, tmp_path: Path):
    """From a run to its row, its file, its CSV and its line; no field of it is empty."""
    setting = replace(SMALL, rounds=10, nodes=2, own_groups=2)
    result = run(setting, laid)
    assert len(result["rounds"]) == 10
    rows = Rows(tmp_path / "results")
    assert rows.get(setting) is None
    rows.put(result)
    assert rows.get(setting) == result
    assert rows.get(replace(setting, seed=1)) is None
    row = row_of("small", result)
    assert {field for field, _, _ in COLUMNS} <= row.keys()
    assert row["tokens"] > 0
    assert 0 < row["reward"] < 20
    assert 0 <= row["held_out"] <= 1
    assert row["advantage_groups"] > 0
    assert row["mismatch_kl"] < 1e-6
    write_csv([row], tmp_path / "small.csv")
    (read,) = read_csv(tmp_path / "small.csv")
    assert "" not in read.values()
    assert read["reward"] == pytest.approx(row["reward"], rel=1e-5)
    assert "biased" in markdown([row]).splitlines()[0].split("|")[-2], "the biased metric is printed last"
    assert [point["round"] for point in curves({"small": [result]})] == list(range(1, 11))


# --- what is shared --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("once", [False, True])
def test_the_pool_holds_other_nodes_groups_of_the_ages_on_offer(laid: Ground, once: bool):
    swarm = swarm_of(replace(SMALL, ages=(1, 2), external_groups=1, once=once), laid)
    for round_ in range(4):
        swarm.play(round_)
    for member in swarm.members:
        pool = swarm.pool(member, 4)
        assert {group.round for group in pool} == {2, 3}
        assert member.address not in {group.node for group in pool}
        assert all(group.external for group in pool)
        assert bool(member.used) == once
        assert not {(group.index, group.slot) for group in pool} & member.used
        assert len(pool) + sum(index >= 6 for index, _ in member.used) == 2 * 2 * SMALL.own_groups
    assert max(swarm.batches) - min(swarm.batches) == 2, "older batches are forgotten"


def test_external_groups_are_drawn_by_what_the_setting_says(laid: Ground):
    """Of a pool without one's own groups: by the variance of rewards, by how seldom one is right, by how far away the
    producer's policy is."""
    swarm = swarm_of(replace(SMALL, nodes=2, learning_rate=1e-2), laid)
    for round_ in range(3):
        swarm.play(round_)
    member = swarm.members[0]
    pool = swarm.pool(member, 3)
    own = training_groups(swarm.batches[2][0].audit, member.policy, external=False)

    def weights(draw: Draw) -> list[float]:
        swarm.setting = replace(swarm.setting, draw=draw)
        weigh = swarm._weights(member, own, pool)
        assert weigh is not None
        return [weigh(group) for group in pool]

    rewards = [sum(s.reward for s in group.samples) / len(group.samples) for group in pool]
    assert weights("balanced") == pytest.approx([mean * (1 - mean) for mean in rewards])
    assert len(set(weights("weakest"))) <= len(TASKS)
    assert all(0.05 <= weight <= 1.05 for weight in weights("weakest"))
    assert len(set(weights("closest"))) > 1
    assert _distance(swarm.members[1].policy, pool[-1]) > 0, "it was trained since"
    untouched = swarm_of(replace(SMALL, nodes=2), laid)
    untouched.play(0)
    assert _distance(laid.policy(0, 0), untouched.pool(untouched.members[0], 1)[0]) < 1e-4
    assert swarm.setting.draw == "closest"
    swarm.play(3)


def test_only_groups_with_an_advantage_are_trained_on(laid: Ground):
    swarm = swarm_of(replace(SMALL, external_groups=9), laid)
    for round_ in range(3):
        useful = {m.address: sum(map(has_advantage, swarm.pool(m, round_))) for m in swarm.members}
        for played in swarm.play(round_):
            assert played.counts.external_used == min(9, useful[played.node])
            assert played.counts.own_used == played.with_advantage
            assert played.stats.groups == played.counts.own_used + played.counts.external_used


@pytest.mark.parametrize(("poison", "checks", "stopped"), [
    ("false-rewards", "documents", "reward"), ("solver", "model", "policy"), ("solver", "documents", None),
])  # fmt: skip
def test_poison_is_stopped_by_the_check_that_can_see_it(laid: Ground, poison: str, checks: str, stopped: str | None):
    """A solver's intervals hold their u; only who runs the policy sees that they are not the policy's."""
    from sapo_verifier.bases import Bases
    from sapo_verifier.model import policy_model

    setting = replace(SMALL, poison=poison, poisoners=1, checks=checks, external_groups=3)  # type: ignore[arg-type]
    model = policy_model(Bases(laid.folders)) if checks == "model" else None
    swarm = swarm_of(setting, laid, model=model)
    played = [swarm.play(round_) for round_ in range(2)]
    assert {each.node for each in played[1]} == {address(0), address(1)}, "a poisoner does not learn"
    assert swarm.rejected == ({stopped: 2} if stopped else {})
    sources = {group.node for group in swarm.pool(swarm.members[0], 2)}
    assert sources == ({address(1)} if stopped else {address(1), address(2)})


def test_half_of_the_nodes_can_vanish(laid: Ground):
    swarm = swarm_of(replace(SMALL, nodes=4, leave=1), laid)
    assert [len(swarm.play(round_)) for round_ in range(2)] == [4, 2]


def test_specialists_are_dealt_their_own_datasets(laid: Ground):
    swarm = swarm_of(replace(SMALL, specialists=1, nodes=2), laid)
    swarm.play(0)
    for position, batch in enumerate(swarm.batches[0]):
        assert {task.dataset for task in batch.audit.tasks} == {TASKS[position].name}


def test_a_node_with_another_tokenizer_learns_from_the_text(worker: RememberingWorker, folder: Path, tmp_path: Path):
    """The same policy under other ids: equal probabilities of equal texts; to the others its groups are text alone."""
    (tmp_path / ".cache").mkdir()
    folders = folder, other_tokenizer(tmp_path, folder)
    laid = ground(worker, *folders)
    policies = [laid.policy(number, 0) for number in range(2)]
    passages = [Passage(p.tokenizer.prompt("G4,2="), [*p.tokenizer.prompt("<2>"), 1]) for p in policies]
    assert passages[0] != passages[1]
    first, second = (policy.log_probs([passage]) for policy, passage in zip(policies, passages, strict=True))
    assert torch.allclose(first, second, atol=1e-5)
    swarm = swarm_of(replace(SMALL, nodes=2, other="tokenizer"), laid)
    swarm.play(0)
    for member, other in (swarm.members, swarm.members[::-1]):
        pool = swarm.pool(member, 1)
        assert {group.node for group in pool} == {other.address}
        assert {sample.sampling_logprobs for group in pool for sample in group.samples} == {None}
    assert swarm.rejected == {}


def test_a_smaller_policy_learns_beside_a_larger_one(
    worker: RememberingWorker, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Brought up in a moment here, so it knows nothing; but it is another base of the same network."""
    for name, value in (("others.STEPS", 1), ("others.ITEMS", 20)):
        monkeypatch.setattr(f"sapo_lab.experiment.{name}", value)
    monkeypatch.setattr("sapo_client.pocket.STEPS", 20)
    (tmp_path / ".cache").mkdir()
    laid = ground(worker, folder, smaller(tmp_path, folder))
    swarm = swarm_of(replace(SMALL, nodes=4, other="smaller"), laid)
    played = [swarm.play(round_) for round_ in range(2)]
    sizes = [sum(p.numel() for p in member.policy.parameters()) for member in swarm.members]
    assert sizes[0] == sizes[2] != sizes[1] == sizes[3]
    assert {each.counts.external_stale for each in played[1]} == {0}
    for i, member in enumerate(swarm.members):
        pool = swarm.pool(member, 2)
        same = {group.node for group in pool if group.samples[0].sampling_logprobs is not None}
        assert same == {swarm.members[(i + 2) % 4].address}, "intervals are of the own base only"
        assert len({group.node for group in pool}) == 3
    assert swarm.rejected == {}


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--generate", "33"], ["--poisoners", "8"], ["--rounds", "0"], ["--j", "-1"]])
def test_a_setting_that_cannot_be_played_is_refused_in_words(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["run", *arguments]) == 2
    assert capsys.readouterr().err.startswith("experiment: ")


def test_every_study_names_settings_that_can_be_played():
    for name in STUDIES:
        settings = study(name)
        assert len(settings) >= 3
        for setting in settings.values():
            check(setting)
            assert Setting.from_json(setting.to_json()) == setting
        assert len({setting.short() for setting in settings.values()}) == len(settings)
    assert len({setting.short() for setting in TABLE.values()}) == len(TABLE)
    assert set(QUICK) <= set(TABLE)


def test_a_table_is_written_with_its_plot(laid: Ground, tmp_path: Path):
    pytest.importorskip("matplotlib")
    result = run(replace(SMALL, rounds=2, nodes=2), laid)
    write_csv([row_of(name, result) for name in ("one", "other")], tmp_path / "small.csv")
    write_csv(curves({"one": [result], "other": [result]}), tmp_path / "small-curves.csv")
    plot("small", tmp_path)
    assert (tmp_path / "small.png").read_bytes().startswith(b"\x89PNG")
