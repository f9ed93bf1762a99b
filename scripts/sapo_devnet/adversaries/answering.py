"""Who answers for what it did not compute: it makes answers up, guesses them, or takes them from a false author."""

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from sapo_client.batches.auditing import Auditor
from sapo_client.batches.pool import Pool
from sapo_client.duties.ballots import Deal
from sapo_client.duties.verdicts import NOTHING_ASKED, Found, Told
from sapo_client.node.compose import Makers
from sapo_client.policy.policy import Policy
from sapo_devnet.adversaries.adversary import Adversary
from sapo_devnet.adversaries.content import Solver
from sapo_devnet.adversaries.friends import Befriended, Friends, ShieldingDuties
from sapo_devnet.adversaries.voters import BlindPool, UnseenVerdicts
from sapo_verifier.audit import Audit, CheckResult, Cost, PolicyModel, Recomputed
from sapo_verifier.facts import BatchInfo
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.positions import positions
from sapo_verifier.objects import Record
from sapo_verifier.spots import Spots


class MadeUpAnswers(UnseenVerdicts):
    """Accepts everything unseen, with as many answers as are asked for: any tokens."""

    def fill_in(
        self,
        deal: Deal,
        window: Sequence[BatchInfo],
        verdicts: Mapping[int, int],
        found: Found,
        answers: Told = NOTHING_ASKED,
    ) -> None:
        if deal.stage == 1:
            spec = self.auditor.spec
            tokens = range(min(base.vocab for base in spec.bases))
            counts = {batch.index: min(spec.spot, batch.slots * spec.group_size) for batch in window}
            answers = {index: [secrets.choice(tokens) for _ in range(count)] for index, count in counts.items()}
        super().fill_in(deal, window, verdicts, found, answers)


class LazyAnswerer(Adversary):
    """Publishes honestly, and looks at nothing."""

    pool = BlindPool
    verdicts = MadeUpAnswers


class ShieldedFaker(Befriended, LazyAnswerer):
    """Several that look at nothing. Each disputes the others' batches at once, and accepts them in stage 2: where a
    batch could be disputed only once, nobody could ask any more what its node had answered."""

    friendly = ("shielded_faker",)

    def makers(self) -> Makers:
        duties = partial(ShieldingDuties, friends=self.friends, about_itself=True)
        return replace(super().makers(), verdicts=self.verdicts, duties=duties)


class NoModel:
    """Stands where a node's model does, and runs none."""

    runs = False
    seconds = 0.0
    cost = Cost()

    def judge(self, audit: Audit, answers: Sequence[int]) -> CheckResult:
        return CheckResult("answers", "unknown", "it runs no model")


class Guess(NoModel):
    """The token that stands most often in the batch beside the one that is there: the cheapest good guess.

    A better one would take a model, and who runs one for every spot has saved little.
    """

    def __call__(self, audit: Audit) -> Recomputed:
        if audit.spots is None:  # nobody asks in stage 2, and an accept there can cost something
            return Recomputed(CheckResult("policy", "unknown", "it does not look"))
        return Recomputed(CheckResult("policy", "pass", "it does not look"), guesses(audit, audit.spots))


def guesses(audit: Audit, spots: Spots) -> tuple[int, ...]:
    """Per spot the likeliest token, by its share of the batch, that is not the one at the place in question."""
    flat = [records for slot in audit.completions for records in slot]
    common = [token for token, _ in Counter(record.token for each in flat for record in each).most_common(2)]

    def guess(i: int) -> int:
        question = spots.question(i, flat[i])
        if question.u is None:
            return 0
        return next((token for token in common if token != flat[i][question.t].token), 0)

    return tuple(guess(i) for i in spots.leaves)


class GuessingPool(Pool):
    """Checks all that takes no model."""

    def __init__(self, auditor: Auditor, policy: Policy, seconds: float, between: Callable[[], None]) -> None:
        super().__init__(replace(auditor, model=Guess()), policy, seconds, between)


class AnswerGuesser(Adversary):
    """Publishes honestly, accepts whatever passes the checks that take no model, and guesses what its spots ask.

    It is right now and then, and saves every pass and all weights of others. In stage 2 it abstains.
    """

    pool = GuessingPool


class FalseAuthor(Solver):
    """A solver that tells its friends what they are asked about its batch, so that they need not look."""


class HearSay:
    """The node's own model, but for friends' batches: of these it takes their author's word, and the answers from it.

    They are what the author's policy says after the text that it pasted, and would be right if that were its own.
    """

    runs = True

    def __init__(self, model: PolicyModel, policy: Policy, friends: Friends) -> None:
        """policy: the author's, which is the node's own: no attacker learns, so both are the base."""
        self.seconds = 0.0
        self.cost = Cost()
        self._model = model
        self._policy = policy
        self._friends = friends

    def __call__(self, audit: Audit) -> Recomputed:
        if audit.facts.node not in self._friends():
            return self._model(audit)
        answers = () if audit.spots is None else told(audit, audit.spots, self._policy)
        return Recomputed(CheckResult("policy", "pass", "its author says so"), answers)

    def judge(self, audit: Audit, answers: Sequence[int]) -> CheckResult:
        return self._model.judge(audit, answers)


def told(audit: Audit, spots: Spots, policy: Policy) -> tuple[int, ...]:
    """What a policy answers to the spots' questions."""

    def answer(i: int) -> int:
        slot, k = divmod(i, audit.spec.group_size)
        records: Sequence[Record] = audit.completions[slot][k]
        question = spots.question(i, records)
        if question.u is None:
            return 0
        us = [0] * len(records)
        us[question.t] = question.u
        prompt = policy.tokenizer.prompt(audit.groups[slot].prompt)
        passage = Passage(prompt, [record.token for record in records])
        (found,) = positions(policy.model, [passage], [us], policy.base.vocab)
        return found[question.t].chosen

    return tuple(answer(i) for i in spots.leaves)


class HearSayPool(Pool):
    """Looks at all but what friends publish."""

    def __init__(
        self, auditor: Auditor, policy: Policy, seconds: float, between: Callable[[], None], friends: Friends
    ) -> None:
        assert auditor.model is not None, "without a model there is nothing to be spared"
        super().__init__(replace(auditor, model=HearSay(auditor.model, policy, friends)), policy, seconds, between)


class AnswerTaker(Befriended):
    """Publishes honestly, and accepts what the false author publishes, in both stages, with the author's answers."""

    friendly = ("false_author",)

    def makers(self) -> Makers:
        return replace(super().makers(), pool=partial(HearSayPool, friends=self.friends))
