"""A swarm in one process: the product's own code for every node, with lists where chain and IPFS would be.

What is shared instead of repeated: the generation of all nodes of one base (stacked.py; the records are the product's
own, made one node at a time), the tasks and scores (tasks.py), and the checks of a batch, which every auditor would
find the same.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from sapo_client.batches.auditing import usable
from sapo_client.batches.ingest import training_groups
from sapo_client.batches.publish import NO_CHAIN, Batch, make_batch
from sapo_client.generation.engine import Engine
from sapo_client.generation.groups import NOBODY
from sapo_client.policy.policy import Policy
from sapo_client.policy.published import Published
from sapo_client.policy.tokenization import prompt_ids
from sapo_client.training.groups import Group, has_advantage
from sapo_client.training.sapo import Counts, StepStats, TrainConfig, build_training_set, make_optimizer, train_step
from sapo_lab.experiment.setting import Setting
from sapo_lab.experiment.stacked import generate_stacked, stackable
from sapo_verifier import protocol
from sapo_verifier.audit import Audit, CheckResult, PolicyModel
from sapo_verifier.checks import check_batch
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.model.forward import Passage
from sapo_verifier.spec import Spec
from sapo_verifier.spots import Spots
from sapo_verifier.tasks import TaskWorker, deal

SKILL_RATE = 0.2  # of the running mean by which the weakest datasets are found
Spoil = Callable[["Member", Batch], Batch]


@dataclass(frozen=True)
class Prepared:
    """Completions by their streams' keys. Whatever goes on from a prefix is a repair, and the engine's own."""

    completions: dict[bytes, list[int]]
    engine: Engine

    def generate(
        self, prompts: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], keys: Sequence[bytes]
    ) -> list[list[int]]:
        if not any(prefixes):
            return [list(self.completions[key]) for key in keys]
        return self.engine.generate(prompts, prefixes, keys)

    def sleep(self) -> None:
        self.engine.sleep()


@dataclass
class Member:
    """A node: what `sapo run` would hold of it."""

    address: str
    spec: Spec  # the network's; of a specialist, with fewer tasks
    policy: Policy
    engine: Engine  # generates where nothing is prepared
    optimizer: torch.optim.Optimizer
    used: set[tuple[int, int]] = field(default_factory=set)  # (index, slot) of external groups, where each counts once
    skill: dict[str, float] = field(default_factory=dict)  # its running mean reward by dataset
    spoil: Spoil | None = None  # what a poisoner makes of its batch
    gone: bool = False


@dataclass(frozen=True)
class Public:
    """A batch as others see it: what the checks said, and its groups, for each base that trains on them."""

    audit: Audit
    results: list[CheckResult]
    groups: dict[str, list[Group]]  # by the reader's base


@dataclass(frozen=True)
class Played:
    """What one node did in one round."""

    node: str
    completions: int
    right: int
    tokens: int  # generated
    with_advantage: int  # of its own groups
    counts: Counts
    stats: StepStats
    training_reward: float | None  # mean over the completions of its training set; None without any


class Swarm:
    """Plays rounds. Equal settings and policies give equal numbers on one kind of machine."""

    def __init__(
        self,
        setting: Setting,
        members: Sequence[Member],
        worker: TaskWorker,
        model: PolicyModel | None = None,
        *,
        stack: bool = True,
    ) -> None:
        """model: answers the policy check. stack: generate for all nodes of a base at once, if their models allow."""
        self.setting = setting
        self.members = list(members)
        self.config = train_config(setting)
        self._worker = worker
        self._model = model
        self._stack = stack
        self.batches: dict[int, list[Public]] = {}  # by round
        self._next_index = 0
        self.rejected: dict[str, int] = {}  # batches that did not pass, by the check that stopped them

    def play(self, round_: int) -> list[Played]:
        """One round of every node that is there."""
        setting = self.setting
        beacon = self.beacon(round_)
        for member in self.members[(len(self.members) + 1) // 2 :]:
            member.gone |= 0 < setting.leave <= round_
        here = [member for member in self.members if not member.gone]
        published = [member.policy.publish() for member in here]
        dealt = [
            BatchFacts.dealt(NO_CHAIN, NOBODY, round_, member.address, beacon, each.digest, setting.slots)
            for member, each in zip(here, published, strict=True)
        ]
        engines = self._prepare(here, dealt)
        own: list[list[Group]] = []
        tokens: list[int] = []
        batches: list[Public] = []
        for member, facts, each, engine in zip(here, dealt, published, engines, strict=True):
            batch = make_batch(member.spec, facts, member.policy, self._worker, engine)
            tokens.append(batch.stats.positions)
            audit = self._audit(member, batch, each)
            own.append(training_groups(audit, member.policy, external=False))
            if member.spoil is not None:
                audit = self._audit(member, member.spoil(member, batch), each)
            batches.append(self._publish(audit))
        self.batches[round_] = batches
        self.batches.pop(round_ - max(setting.ages) - 1, None)
        learning = [i for i, member in enumerate(here) if member.spoil is None]
        return [self._learn(round_, here[i], own[i], tokens[i]) for i in learning]

    def beacon(self, round_: int) -> bytes:
        return protocol.beacon(NO_CHAIN, NOBODY, round_, protocol.H("experiment", self.setting.seed))

    def pool(self, member: Member, round_: int) -> list[Group]:
        """What the windows of the rounds on offer deal to this node, if so wanted without what it was trained on."""
        groups = []
        for age in sorted(self.setting.ages, reverse=True):
            batches = self.batches.get(round_ - age, [])
            if not batches:
                continue
            names = [batch.audit.facts.node for batch in batches]
            own = names.index(member.address) if member.address in names else None
            start = protocol.window_start(self.beacon(round_ - age + 1), member.address, 1, len(batches), own)
            window = protocol.window(start, len(batches), own, member.spec.chain.draws)
            for batch in (batches[position] for position in window):
                groups += self._recomputed(member, batch, self.beacon(round_ - age + 1))
        return [group for group in groups if (group.index, group.slot) not in member.used]

    def _recomputed(self, member: Member, batch: Public, beacon: bytes) -> list[Group]:
        """The batch's groups, with p_theirs where this node's spots lie. beacon: of the round after the batch's."""
        groups, size = batch.groups[member.policy.base.id], member.spec.group_size
        if self.setting.spot == 0:
            return groups
        facts, seed = batch.audit.facts, protocol.H("experiment", self.setting.seed, member.address)
        known = Spots.of(beacon, seed, facts.index, facts.slots * size, self.setting.spot).leaves
        return [
            replace(
                group,
                samples=[
                    sample if group.slot * size + k in known else replace(sample, sampling_logprobs=None)
                    for k, sample in enumerate(group.samples)
                ],
            )
            for group in groups
        ]

    def _prepare(self, here: Sequence[Member], dealt: Sequence[BatchFacts]) -> list[Engine]:
        """What generates for each node: what was generated just now for all nodes of its base at once, or, where
        their models cannot be stacked, its own engine."""
        engines = [member.engine for member in here]
        for base in dict.fromkeys(member.policy.base.id for member in here):
            same = [i for i, member in enumerate(here) if member.policy.base.id == base]
            models = [here[i].policy.model for i in same]
            if not self._stack or not stackable(models):
                continue
            first = here[same[0]]
            size, rule = first.spec.group_size, first.policy.base
            keys = [dealt[i].stream_keys(size) for i in same]
            prompts = [[ids for ids in self._prompts(here[i], dealt[i]) for _ in range(size)] for i in same]
            made = generate_stacked(
                models,
                prompts,
                keys,
                vocab=rule.vocab,
                eos=rule.eos,
                max_new_tokens=first.spec.max_new_tokens,
            )
            for i, its_keys, completions in zip(same, keys, made, strict=True):
                engines[i] = Prepared(dict(zip(its_keys, completions, strict=True)), engines[i])
        return engines

    def _prompts(self, member: Member, dealt: BatchFacts) -> list[list[int]]:
        policy, spec = member.policy, member.spec
        tasks = [deal(spec, dealt.beacon, dealt.node, slot, self._worker) for slot in range(dealt.slots)]
        return [prompt_ids(policy.tokenizer, policy.base, task, spec.answer) for task in tasks]

    def _audit(self, member: Member, batch: Batch, published: Published) -> Audit:
        facts = replace(batch.facts, index=self._next_index)
        weights = {} if self._model is None else {block_digest(block): block for block in published.blocks}
        blocks = {**batch.blocks, **weights, facts.policy: published.manifest}
        tokenizers = {m.policy.base.id: m.policy.tokenizer for m in self.members}
        return Audit(facts, member.spec, blocks, self._worker, lambda base: tokenizers[base.id], self._model)

    def _publish(self, audit: Audit) -> Public:
        """The batch in the round's list; its groups only if the checks let them pass."""
        self._next_index += 1
        if self.setting.external_groups == 0:  # nobody will look
            return Public(audit, [], {})
        results = [] if self.setting.checks == "off" else check_batch(audit)
        if not (passed := usable(results, policy_check=self.setting.checks == "model")):
            self.rejected[results[-1].check] = self.rejected.get(results[-1].check, 0) + 1
        groups: dict[str, list[Group]] = {}
        for other in self.members:
            if other.policy.base.id not in groups:
                groups[other.policy.base.id] = _offered(audit, other.policy) if passed else []
        return Public(audit, results, groups)

    def _learn(self, round_: int, member: Member, own: list[Group], tokens: int) -> Played:
        """As Learner.train, without its checkpoint."""
        rng = random.Random(f"{self.setting.seed}/{member.address}/{round_}")
        pool = self.pool(member, round_) if self.config.external_groups else []
        config = self.config
        if self.setting.draw == "fill":  # as many external groups as own ones are missing
            have = min(config.own_groups, sum(map(has_advantage, own)))
            config = replace(config, external_groups=config.own_groups + config.external_groups - have)
        weigh = self._weights(member, own, pool)
        groups, counts = build_training_set(own, pool, config, round_=round_, rng=rng, weigh=weigh)
        if self.setting.once:
            member.used |= {(group.index, group.slot) for group in groups if group.external and group.index is not None}
        if self.setting.own_as_external:
            groups = [replace(group, external=True) for group in groups]
        stats = train_step(member.policy, member.optimizer, groups, self.config)
        rewards = [sample.reward for group in own for sample in group.samples]
        trained = [sample.reward for group in groups for sample in group.samples]
        return Played(
            node=member.address,
            completions=len(rewards),
            right=int(sum(rewards)),
            tokens=tokens,
            with_advantage=sum(map(has_advantage, own)),
            counts=counts,
            stats=stats,
            training_reward=sum(trained) / len(trained) if trained else None,
        )

    def _weights(self, member: Member, own: Sequence[Group], pool: Sequence[Group]) -> Callable[[Group], float] | None:
        """How a draw that is not uniform weighs an external group."""
        if self.setting.draw == "balanced":  # by the variance of its rewards
            return lambda group: _variance([sample.reward for sample in group.samples])
        if self.setting.draw == "weakest":  # by how seldom this node is right in its dataset
            for group in own:
                dataset, reward = self._dataset(group), _mean([sample.reward for sample in group.samples])
                before = member.skill.get(dataset, reward)
                member.skill[dataset] = before + SKILL_RATE * (reward - before)
            return lambda group: 1.05 - member.skill.get(self._dataset(group), 0.0)
        if self.setting.draw == "closest":  # by how little this node's probabilities differ from the producer's
            distance = {(group.index, group.slot): _distance(member.policy, group) for group in pool}
            return lambda group: 1 / (0.01 + distance[group.index, group.slot])
        return None

    def _dataset(self, group: Group) -> str:
        (audit,) = [b.audit for b in self.batches[group.round] if b.audit.facts.node == group.node]
        return audit.groups[group.slot].dataset


def _offered(audit: Audit, policy: Policy) -> list[Group]:
    """A batch's groups for a node of this policy. The swarm made the batch, so it knows that the intervals are true."""
    return training_groups(audit, policy, external=True, known=audit.leaves)


@torch.no_grad()
def _distance(policy: Policy, group: Group) -> float:
    """Mean of |own − behaviour log-probability| over the group's tokens, nats; 1 where nobody knows the latter."""
    if any(sample.sampling_logprobs is None for sample in group.samples):
        return 1.0
    own = policy.log_probs([Passage(sample.prompt_ids, sample.ids) for sample in group.samples])
    sampling = torch.tensor([value for sample in group.samples for value in sample.sampling_logprobs or ()])
    return float((own - sampling).abs().mean())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    return _mean(values) * (1 - _mean(values))


def train_config(setting: Setting) -> TrainConfig:
    return TrainConfig(
        own_groups=setting.own_groups,
        external_groups=setting.external_groups,
        external=setting.external,
        staleness=max(TrainConfig().staleness, *setting.ages),
        learning_rate=setting.learning_rate,
    )


def address(number: int) -> str:
    return f"0x{number + 1:040x}"


def make_members(
    setting: Setting, spec: Spec, load: Callable[[int], Policy], engine_of: Callable[[Policy], Engine]
) -> list[Member]:
    """The nodes. load: a fresh policy of the base with this number in the spec."""
    members = []
    for number in range(setting.nodes):
        policy = load(number % 2 if setting.other != "none" else 0)
        rules = spec
        if setting.specialists:
            count = len(spec.tasks)
            known = {(number * setting.specialists + i) % count for i in range(setting.specialists)}
            rules = spec.model_copy(update={"tasks": [rule for i, rule in enumerate(spec.tasks) if i in known]})
        optimizer = make_optimizer(policy, train_config(setting))
        members.append(Member(address(number), rules, policy, engine_of(policy), optimizer))
    return members
