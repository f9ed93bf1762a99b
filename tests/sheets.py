"""Voters whose ballots have answers, for policies whose manifests vouch for salts: on a real chain, without a model.

The declared policies' answers are a rule that everybody here can compute; what one voter says of a batch, the test may
change before it is committed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sapo_client.batches.auditing import Asked
from sapo_client.batches.seeds import Seeds
from sapo_client.duties.answers import Answers
from sapo_client.duties.ballots import Ballot, Deal
from sapo_client.duties.verdicts import NOTHING_ASKED, Found, Told, Verdicts, report_block
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.networks import Network, deploy_on, small_spec
from sapo_verifier.audit import CheckResult
from sapo_verifier.chain.contracts import Call
from sapo_verifier.checks import Verdict
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchInfo
from sapo_verifier.objects import PolicyManifest
from sapo_verifier.spots import Spots, encode_answers
from voters import FakePool, FakeStore, Voter, address, register, send, submit

SPOT = 3  # of the eight completions of a batch
Sheet = dict[int, list[int]]  # by accepted batch, in the window's order


def right(index: int, leaf: int) -> int:
    """The token that the policy of a batch answers with about one of its completions."""
    return 100 * index + leaf


def write(spots: Mapping[int, Spots]) -> Sheet:
    """What a voter answers that ran everything."""
    return {index: [right(index, leaf) for leaf in each.leaves] for index, each in spots.items()}


@dataclass
class Judging(FakePool):
    """Judges answers by the rule, unless the test says what it finds about a batch."""

    asked: list[Asked] = field(default_factory=list)

    def judge(self, asked: Sequence[Asked]) -> list[CheckResult]:
        self.asked += asked
        return [self._judge(each) for each in asked]

    def _judge(self, asked: Asked) -> CheckResult:
        if asked.batch.index in self.judged:
            return self.judged[asked.batch.index]
        for leaf, answer in zip(asked.spots.leaves, asked.answers, strict=True):
            if answer != right(asked.batch.index, leaf):
                return CheckResult("answers", "fail", f"the answer is not {answer}", *divmod(leaf, 4))
        return CheckResult("answers", "pass")


@dataclass
class AnsweringVerdicts(Verdicts):
    """Each accepted batch's spots are answered."""

    sheet: Callable[[Mapping[int, Spots]], Sheet] = write
    salts: Callable[[bytes], bytes] = lambda salt: salt

    def fill_in(
        self,
        deal: Deal,
        window: Sequence[BatchInfo],
        verdicts: Mapping[int, int],
        found: Found,
        answers: Told = NOTHING_ASKED,
    ) -> None:
        if deal.stage == 2:
            super().fill_in(deal, window, verdicts, found)
            return
        spec, salt = self.actor.reader.deployment.spec, self.salts(self.seeds.seed(deal.round))
        word = sum(verdicts.get(batch.index, 0) << (2 * j) for j, batch in enumerate(window))
        accepted = [batch for batch in window if verdicts.get(batch.index) == Verdict.ACCEPT]
        spots = {b.index: Spots.of(deal.beacon, salt, b.index, b.slots * spec.group_size, spec.spot) for b in accepted}
        told = encode_answers([token for tokens in self.sheet(spots).values() for token in tokens])
        block = report_block(deal.round, deal.stage, self.actor.node, verdicts, found)
        self.ballots.put(Ballot(deal, word, block, salt, told))


class Answering(Voter):
    """A voter with such ballots, that judges others'. store: what its daemon has."""

    answers = Answers

    def __init__(self, network: Network, account: int, folder: Path, store: FakeStore) -> None:
        super().__init__(network, account, folder)
        self.pool: Judging = Judging()
        self.store = store
        shared: Any = store
        model: Any = SimpleNamespace(runs=True)
        pins: Any = SimpleNamespace(keep=lambda digests, until: None)
        self.auditor = replace(self.auditor, store=shared, model=model, pins=pins)
        self.restart()

    def open(self) -> None:
        super().open()
        honest = self.duties.verdicts
        self.verdicts = AnsweringVerdicts(**{name: getattr(honest, name) for name in honest.__dataclass_fields__})
        self.duties.verdicts = self.verdicts


def manifest(audit: bytes) -> bytes:
    return PolicyManifest(audit=audit, base="pocket", kind="base", size=0, blocks=[]).encode()


@contextmanager
def answering_network(accounts: Sequence[int], round_: int) -> Iterator[tuple[Network, FakeStore]]:
    """Nodes with a batch each in the round, whose policies vouch for their salts; and the manifests of these."""
    with anvil() as chain:
        network, store = deploy_on(chain, small_spec(spot=SPOT)), FakeStore()
        register(network, accounts)
        network.mine_to_round(round_ - 1)
        calls = [(account, _policy(network, account, round_, store), 0) for account in accounts]
        send(network, calls)
        submit(network, dict.fromkeys(accounts, 1), round_)
        yield network, store
        network.close()


def _policy(network: Network, account: int, round_: int, store: FakeStore) -> Call:
    node, reader = address(network, account), network.reader()
    unused: Any = None
    block = manifest(Seeds.of(network.chain.account(account), node, reader, unused).audit(round_))
    store.blocks[block_digest(block)] = block
    return Call("rounds", "commitPolicy", (node, round_, block_digest(block), 2))


def disputed(voters: Iterable[Voter], index: int) -> set[int]:
    """About which batches anybody of these has disputed one."""
    keys = [key for voter in voters for key in voter.outbox.keys("answers/") if voter.status(key) == "mined"]
    return {int(key.split("/")[3]) for key in keys if int(key.split("/")[2]) == index}
