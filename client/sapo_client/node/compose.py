"""The one place in which a node is put together: from what is open and running to the parts that its loop uses."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_client.batches.auditing import Auditor
from sapo_client.batches.kept import KeptBlocks
from sapo_client.batches.pins import PinBook
from sapo_client.batches.pool import Pool
from sapo_client.batches.presence import Presence
from sapo_client.batches.seeds import Seeds
from sapo_client.batches.spares import Spares
from sapo_client.duties.actor import Actor
from sapo_client.duties.answers import Answers
from sapo_client.duties.ballots import BallotBox
from sapo_client.duties.beacon import Capture
from sapo_client.duties.bond import Bond
from sapo_client.duties.disputes import Disputes
from sapo_client.duties.duties import Duties
from sapo_client.duties.elsewhere import KeyWatch
from sapo_client.duties.leaving import is_over
from sapo_client.duties.looking import Looking
from sapo_client.duties.promises import Promises
from sapo_client.duties.relays import Relays, relays_of
from sapo_client.duties.requests import Requests
from sapo_client.duties.settling import Settler
from sapo_client.duties.verdicts import Verdicts
from sapo_client.duties.watches import Watches
from sapo_client.generation.engine import Engine
from sapo_client.node.history import History
from sapo_client.node.loop import Node, Parts, raise_if
from sapo_client.node.roles import Learns, Publisher
from sapo_client.state import home as layout
from sapo_client.state.report import SayOnce, StatusFile
from sapo_client.state.requests import RequestBook
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.turns import Turns
from sapo_verifier.audit import PolicyModel
from sapo_verifier.bases import Bases
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.ipfs import BlockStore, GatewayReader
from sapo_verifier.tasks import TaskWorker

if TYPE_CHECKING:
    from sapo_client.policy.policy import Policy
    from sapo_client.training.sapo import TrainConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Resources:
    """What is open and running for a node (start.py opens and closes it), and its settings."""

    home: Path
    node: str  # the owner's address
    status: StatusFile
    endpoint: str  # where peers find its blocks
    reader: ChainReader
    outbox: Outbox
    store: BlockStore
    peers: GatewayReader  # looks whether producers still serve what they published
    worker: TaskWorker
    policy: "Policy"
    engine: Engine  # what generates, with the policy's weights
    bases: Bases
    model: PolicyModel | None  # answers the policy check; None: that check is left out
    pins: PinBook
    requests: RequestBook  # what its operator asks of it
    seeds: Seeds  # the salts that its policies vouch for
    ballots: BallotBox | None  # where the node's verdicts are kept; None: it does not vote
    config: "TrainConfig"
    seed: int
    poll_seconds: float
    patience_minutes: float  # without a chain, until the node gives up; 0: never
    daemon_patience_minutes: float  # without the IPFS daemon, in the same way
    audit_seconds: float  # for fetching all batches that a round wants
    last_round: int | None  # to publish in; None: no end
    history_rounds: int  # for which reports and settled transactions are kept
    drand_relays: Sequence[str] = ()  # that are asked where the beacon waits for drand; none: the public ones


def _own(**parts: Any) -> Publisher:
    """Loaded late, as the next one is: who makes others needs no torch."""
    from sapo_client.batches.own_batch import OwnBatches

    return OwnBatches(**parts)


def _learner(*parts: Any) -> Learns:
    from sapo_client.node.learner import Learner

    return Learner(*parts)


@dataclass(frozen=True)
class Makers:
    """What makes those parts of a node in which others may differ: a hostile node is composed with other ones."""

    blocks: Callable[..., KeptBlocks] = KeptBlocks
    pool: Callable[..., Pool] = Pool
    own: Callable[..., Publisher] = _own
    learner: Callable[..., Learns] = _learner
    verdicts: Callable[..., Verdicts] = Verdicts
    duties: Callable[..., Duties] = Duties


HONEST = Makers()


def compose(open_: Resources, stop: threading.Event, makers: Makers = HONEST) -> Node:
    """A node that plays until `stop` is set."""
    reader, outbox, node, spec = open_.reader, open_.outbox, open_.node, open_.reader.deployment.spec
    checkpoints = open_.home / layout.CHECKPOINTS
    say = SayOnce(log.warning)
    spares = Spares(open_.home / layout.OWED, open_.home / layout.BLOCKS)
    blocks = makers.blocks(open_.store, open_.pins, spares)
    auditor = Auditor(
        reader, open_.store, spec, open_.worker, open_.bases.tokenizer, open_.model, open_.pins, node, open_.seeds
    )

    def between() -> None:
        raise_if(stop)
        open_.status.progress()

    pool = makers.pool(auditor, open_.policy, open_.audit_seconds, between)
    learner = makers.learner(open_.policy, open_.config, checkpoints, f"{open_.seed}/{node}")
    own = makers.own(
        reader=reader,
        outbox=outbox,
        blocks=blocks,
        worker=open_.worker,
        policy=open_.policy,
        engine=open_.engine,
        spec=spec,
        node=node,
        checkpoints=checkpoints,
        seeds=open_.seeds,
    )
    turns = Turns(node, outbox)
    elsewhere = KeyWatch(reader, outbox, node, open_.endpoint, say)

    def adopt(endpoint: str) -> None:
        elsewhere.endpoint = endpoint
        open_.status.update(endpoint=endpoint)

    requests = Requests(reader, outbox, node, open_.requests, adopt)
    actor = Actor(node, reader, AuditsReader(reader), outbox, turns, say, requests.may_promise)
    promises = Promises(reader, Bond(actor), pays=open_.ballots is not None)
    duties = (
        None
        if open_.ballots is None
        else _duties(actor, promises, open_.ballots, open_.peers, auditor, pool, blocks, open_.seeds, makers)
    )
    parts = Parts(
        home=open_.home,
        node=node,
        reader=reader,
        outbox=outbox,
        turns=turns,
        capture=Capture(reader, turns, _relays(reader, open_.drand_relays, say)),
        blocks=blocks,
        auditor=auditor,
        pool=pool,
        own=own,
        learner=learner,
        seeds=open_.seeds,
        promises=promises,
        history=History(open_.home, outbox, open_.history_rounds),
        duties=duties,
        elsewhere=elsewhere,
        requests=requests,
        is_over=partial(is_over, actor, claims=duties is not None),
        say=say,
        status=open_.status,
        poll_seconds=open_.poll_seconds,
        patience_minutes=open_.patience_minutes,
        last_round=open_.last_round,
        daemon_patience_minutes=open_.daemon_patience_minutes,
    )
    return Node(parts, stop)


def _relays(reader: ChainReader, named: Sequence[str], say: SayOnce) -> Relays | None:
    drand = reader.deployment.drand
    return None if drand is None else Relays(relays_of(named, drand), drand, say)


def _duties(
    actor: Actor,
    promises: Promises,
    ballots: BallotBox,
    peers: GatewayReader,
    auditor: Auditor,
    pool: Pool,
    blocks: KeptBlocks,
    seeds: Seeds,
    makers: Makers,
) -> Duties:
    presence = Presence(auditor, peers)
    watches = Watches(actor.reader, presence)
    answers = Answers(auditor, pool)
    disputes = Disputes(actor, ballots, auditor, presence, watches, pool)
    return makers.duties(
        actor=actor,
        bond=promises.bond,
        promises=promises,
        verdicts=makers.verdicts(actor, ballots, auditor, pool, presence, watches, blocks, seeds, answers),
        disputes=disputes,
        looking=Looking(actor, answers, disputes),
        settler=Settler(actor, auditor, pool),
        watches=watches,
    )
