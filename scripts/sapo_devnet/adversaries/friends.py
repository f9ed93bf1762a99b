"""Attackers that help each other: with accepts that nobody earned, with disputes that are to keep others away."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from sapo_client.duties.actor import Actor
from sapo_client.duties.ballots import Deal
from sapo_client.duties.debts import would_pass
from sapo_client.duties.testimony import Testimony
from sapo_client.duties.verdicts import NOTHING_ASKED, Found, Told, Verdicts
from sapo_client.node.compose import Makers
from sapo_client.state.home import KEYSTORE
from sapo_client.transactions.turns import put_once
from sapo_devnet.adversaries.adversary import Accomplice, Adversary
from sapo_devnet.adversaries.content import JunkClaimer
from sapo_devnet.adversaries.serving import ServesThenWithholds
from sapo_verifier import keystore
from sapo_verifier.chain.contracts import Call
from sapo_verifier.checks import Verdict
from sapo_verifier.facts import BatchInfo
from sapo_verifier.schedule import DISPUTE_AFTER, FINAL_AFTER

Friends = Callable[[], Collection[str]]  # addresses; asked when they are needed, as a home has none before `sapo init`


def nodes_that_play(attacks: Collection[str], home: Path) -> list[str]:
    """The addresses of the nodes with these attacks whose homes lie beside this one, by their names."""
    homes = (folder for folder in home.parent.iterdir() if folder.name.partition("-")[0] in attacks)
    return [keystore.address_of(folder / KEYSTORE) for folder in sorted(homes) if (folder / KEYSTORE).exists()]


@dataclass
class FriendlyVerdicts(Verdicts):
    """As it found, but for friends: theirs are accepted, whatever they are."""

    friends: Friends

    def fill_in(
        self,
        deal: Deal,
        window: Sequence[BatchInfo],
        verdicts: Mapping[int, int],
        found: Found,
        answers: Told = NOTHING_ASKED,
    ) -> None:
        friends = self.friends()
        theirs = [batch.index for batch in window if batch.node in friends and batch.index in verdicts]
        unseen: Found = {index: [] for index in theirs}
        said = {**verdicts, **dict.fromkeys(theirs, Verdict.ACCEPT)}
        super().fill_in(deal, window, said, {**found, **unseen}, answers)


@dataclass
class ShieldingDuties(Accomplice):
    """Disputes a friend's batch as soon as that is possible, for one reason only: that the batch itself is judged
    again, or what its node said of another one."""

    friends: Friends
    about_itself: bool = False

    def denounce(self, current: int) -> None:
        judged = current - DISPUTE_AFTER
        friends = self.friends()
        for batch in self.verdicts.auditor.window(judged, 1) if judged >= 0 else []:
            if batch.node in friends:
                _shield(self, batch, current)
        _close(self.actor, current - FINAL_AFTER)


def _shield(duties: ShieldingDuties, batch: BatchInfo, current: int) -> None:
    actor = duties.actor
    reasons = [batch.index] if duties.about_itself else _accepted(duties, batch)
    if reasons:
        call, bond = Call("disputes", "dispute", (batch.index, reasons[0])), actor.audits.terms().dispute_bond
        put_once(actor.outbox, f"shield/{batch.round}/{batch.index}", call, value=bond, deadline_round=current)


def _accepted(duties: ShieldingDuties, batch: BatchInfo) -> list[int]:
    """What the batch's node accepted in stage 1."""
    testimony = Testimony.read(duties.actor.reader, duties.actor.node, batch.round, [batch.index], [batch.node])
    ballot = testimony.ballots.get(batch.node)
    return [] if ballot is None else ballot.accepted


def _close(actor: Actor, final: int) -> None:
    """The bonds that come back."""
    for key in actor.outbox.keys(f"shield/{final}/"):
        stored = actor.outbox.call_of(key)
        assert stored is not None
        call = Call("disputes", "closeDispute", stored.args)
        if would_pass(actor.reader, call, actor.outbox.address):
            put_once(actor.outbox, f"close/{key}", call)


class Befriended(Adversary):
    """Has friends: the nodes of the same devnet that play `friendly`."""

    friendly: ClassVar[Collection[str]]
    _home: Path

    def prepare(self, home: Path) -> None:
        self._home = home

    def friends(self) -> list[str]:
        return nodes_that_play(self.friendly, self._home)

    def makers(self) -> Makers:
        return replace(super().makers(), verdicts=partial(FriendlyVerdicts, friends=self.friends))


class Friend(Befriended):
    """Publishes honestly, and accepts unseen what these publish."""

    friendly = ("junk_claimer", "self_slasher")


class LowTurnoutCartel(Befriended, JunkClaimer):
    """Several that claim everything and accept each other's, where many honest voters are absent (voters.Absent)."""

    friendly = ("low_turnout_cartel",)


class ShieldingFriend(Befriended, ServesThenWithholds):
    """Two that serve until stage 1 has accepted them, and then no longer. Each disputes the other's batch first, about
    something else: stage 2 would let it stand for want of another dispute, if that kept those away who miss its
    blocks."""

    friendly = ("shielding_friend",)

    def makers(self) -> Makers:
        return replace(super().makers(), duties=partial(ShieldingDuties, friends=self.friends))
