"""A node as it acts on chain: who it is, what it reads there, and how it sends."""

from collections.abc import Callable
from dataclasses import dataclass

from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.turns import Turns
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.reader import ChainReader


@dataclass(frozen=True)
class Actor:
    """What every duty works with. say(words): to the operator, once. may_promise(round): whether something new may be
    promised in it."""

    node: str  # the owner's address
    reader: ChainReader
    audits: AuditsReader
    outbox: Outbox
    turns: Turns
    say: Callable[[str], None]
    may_promise: Callable[[int], bool] = lambda _: True
