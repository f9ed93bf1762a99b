"""`sapo run`: from a home folder to a running node, every part closed again however it ends."""

import logging
import threading
import time
from contextlib import ExitStack

import torch

from sapo_client.batches.pins import PinBook
from sapo_client.batches.seeds import Seeds
from sapo_client.duties.ballots import BallotBox
from sapo_client.duties.registration import ensure_registered
from sapo_client.generation.factory import make_engine
from sapo_client.node.alone import wait_until_alone
from sapo_client.node.compose import HONEST, Makers, Resources, compose
from sapo_client.node.daemon import open_store
from sapo_client.node.observing.observer import observed
from sapo_client.node.patience import Patience
from sapo_client.node.preflight import Ready
from sapo_client.node.stopping import stopping
from sapo_client.policy.policy import Policy
from sapo_client.state import home as layout
from sapo_client.state.heartbeat import beating
from sapo_client.state.report import StatusFile
from sapo_client.state.requests import RequestBook
from sapo_client.state.settings import SapoSettings
from sapo_client.training.sapo import TrainConfig
from sapo_client.transactions.outbox import Outbox
from sapo_verifier.ipfs import BlockStore, GatewayReader
from sapo_verifier.model import policy_model
from sapo_verifier.tasks import TaskWorker, check_versions

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0  # for one block of a producer that is looked for again


def run(ready: Ready, makers: Makers = HONEST) -> None:
    """Run the node until SIGTERM or SIGINT. Raises SapoError with what to do where something is missing."""
    stop = threading.Event()
    status = StatusFile(ready.home)
    status.update(node=ready.node, endpoint=ready.endpoint, phase="starting")
    with stopping(stop), ExitStack() as stack:
        stack.enter_context(beating(status))
        stack.enter_context(observed(ready.home, ready.settings, status))
        # The daemon first: after a restart peers can fetch again while the model loads.
        store = open_store(ready.home, ready.settings.ipfs, status, stop, stack)
        if stop.is_set():
            return
        resources = _open(ready, store, status, stop, stack)
        if not stop.is_set():
            compose(resources, stop, makers).run()


def _open(ready: Ready, store: BlockStore, status: StatusFile, stop: threading.Event, stack: ExitStack) -> Resources:
    settings = ready.settings
    home, node, reader, bases = ready.home, ready.node, ready.reader, ready.bases
    spec, scratch = reader.deployment.spec, home / layout.ENGINE
    if settings.threads:
        torch.set_num_threads(settings.threads)
    patience = min(settings.ipfs.seconds_per_source, LOOK_SECONDS)
    peers = stack.enter_context(GatewayReader(allow_private=settings.ipfs.allow_private, timeout=patience))
    worker = stack.enter_context(TaskWorker())
    check_versions(spec, worker)
    device, options = settings.policy.device, settings.policy.options(settings.sapo.seed)
    started = time.monotonic()
    log.info("loading the base %s from %s", ready.base.id, bases.folder(ready.base))
    policy = Policy.load(bases.folder(ready.base), ready.base, device=device, options=options)
    engine = stack.enter_context(
        make_engine(policy, spec, settings.generation, threads=settings.threads, scratch=scratch)
    )
    log.info(
        "loaded it onto %s, with the engine %s: %.1f s", device, settings.generation.engine, time.monotonic() - started
    )
    outbox = Outbox.at_home(home, settings.chain, reader, ready.account)
    stack.callback(outbox.close)
    pins = PinBook(home / layout.PINS)
    stack.callback(pins.close)
    requests = RequestBook(home / layout.REQUESTS)
    stack.callback(requests.close)
    ballots = BallotBox(home / layout.BALLOTS) if settings.audit.vote else None
    if ballots is not None:
        stack.callback(ballots.close)
    if not ready.i_know:
        chain = settings.chain
        wait_until_alone(
            reader,
            outbox,
            node,
            status,
            poll_seconds=chain.poll_seconds,
            patience=Patience(chain.patience_minutes, chain.poll_seconds),
            stop=stop,
        )
    if not stop.is_set():
        ensure_registered(reader, outbox, node, ready.operator, ready.endpoint, register=ready.register, stop=stop)
    return Resources(
        home=home,
        node=node,
        status=status,
        endpoint=ready.endpoint,
        reader=reader,
        outbox=outbox,
        store=store,
        peers=peers,
        worker=worker,
        policy=policy,
        engine=engine,
        bases=bases,
        model=policy_model(bases, device=device) if settings.audit.policy_check else None,
        pins=pins,
        requests=requests,
        seeds=Seeds.of(ready.account, node, reader, store),
        ballots=ballots,
        config=train_config(settings.sapo),
        seed=settings.sapo.seed,
        poll_seconds=settings.chain.poll_seconds,
        patience_minutes=settings.chain.patience_minutes,
        audit_seconds=settings.audit.seconds,
        last_round=settings.sapo.last_round,
        history_rounds=settings.history.rounds,
        drand_relays=settings.chain.drand_relays,
        daemon_patience_minutes=settings.ipfs.patience_minutes,
    )


def train_config(settings: SapoSettings) -> TrainConfig:
    """The trainer's configuration; what the settings leave open keeps its default."""
    defaults = TrainConfig()
    return TrainConfig(
        own_groups=settings.own_groups,
        external_groups=settings.external_groups,
        external=settings.external,
        learning_rate=settings.learning_rate or defaults.learning_rate,
        micro_batch_tokens=settings.micro_batch_tokens,
    )
