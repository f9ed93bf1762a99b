"""`sapo run`: from a home folder to a running node, every part closed again however it ends."""

import logging
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import torch

from sapo_client.batches.pins import PinBook
from sapo_client.duties.ballots import BallotBox
from sapo_client.duties.registration import ensure_registered
from sapo_client.generation.factory import make_engine
from sapo_client.node.alone import wait_until_alone
from sapo_client.node.compose import HONEST, Makers, Resources, compose
from sapo_client.node.observing.observer import observed
from sapo_client.node.patience import Patience
from sapo_client.node.preflight import Ready
from sapo_client.policy.policy import Policy
from sapo_client.state import home as layout
from sapo_client.state.heartbeat import beating
from sapo_client.state.report import StatusFile
from sapo_client.state.settings import SapoSettings, Settings
from sapo_client.training.sapo import TrainConfig
from sapo_client.transactions.outbox import Outbox
from sapo_verifier.errors import UnableError
from sapo_verifier.ipfs import BlockStore, GatewayReader, StoreFailed, parse_endpoint
from sapo_verifier.model import policy_model
from sapo_verifier.tasks import TaskWorker

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0  # for one block of a producer that is looked for again
DAEMON_SECONDS = 120.0  # for the embedded IPFS daemon to become ready on a slow machine


def run(ready: Ready, makers: Makers = HONEST) -> None:
    """Run the node until SIGTERM or SIGINT. Raises SapoError with what to do where something is missing."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    status = StatusFile(ready.home)
    status.update(node=ready.node, endpoint=ready.endpoint, phase="starting")
    with ExitStack() as stack:
        stack.enter_context(beating(status))
        stack.enter_context(observed(ready.home, ready.settings, status))
        resources = _open(ready, status, stop, stack)
        if not stop.is_set():
            compose(resources, stop, makers).run()


def _open(ready: Ready, status: StatusFile, stop: threading.Event, stack: ExitStack) -> Resources:
    settings = ready.settings
    home, node, reader, bases = ready.home, ready.node, ready.reader, ready.bases
    spec, scratch = reader.deployment.spec, home / layout.ENGINE
    if settings.threads:
        torch.set_num_threads(settings.threads)
    # The daemon first: after a restart peers can fetch again while the model loads.
    store = _store(home, settings, stack)
    patience = min(settings.ipfs.seconds_per_source, LOOK_SECONDS)
    peers = stack.enter_context(GatewayReader(allow_private=settings.ipfs.allow_private, timeout=patience))
    worker = stack.enter_context(TaskWorker())
    worker.check_versions(spec)
    device, options = settings.policy.device, settings.policy.options(settings.sapo.seed)
    policy = Policy.load(bases.folder(ready.base), ready.base, device=device, options=options)
    engine = stack.enter_context(
        make_engine(policy, spec, settings.generation, threads=settings.threads, scratch=scratch)
    )
    outbox = Outbox.at_home(home, settings.chain, reader, ready.account)
    stack.callback(outbox.close)
    pins = PinBook(home / layout.PINS)
    stack.callback(pins.close)
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
        ballots=ballots,
        config=train_config(settings.sapo),
        seed=settings.sapo.seed,
        poll_seconds=settings.chain.poll_seconds,
        patience_minutes=settings.chain.patience_minutes,
        audit_seconds=settings.audit.seconds,
        last_round=settings.sapo.last_round,
        history_rounds=settings.history.rounds,
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


def _store(home: Path, settings: Settings, stack: ExitStack) -> BlockStore:
    """The daemon that answers at the configured address, or else the embedded one, started here."""
    ipfs = settings.ipfs
    store = stack.enter_context(BlockStore(ipfs.api, allow_private=ipfs.allow_private, timeout=ipfs.seconds_per_source))
    if _answers(store):
        return store
    api, gateway = (parse_endpoint(address, allow_private=True) for address in (ipfs.api, ipfs.gateway))
    log.info("no IPFS daemon answers at %s; starting the embedded one", ipfs.api)
    command = [sys.executable, "-m", "sapo_verifier.ipfs.daemon.serve", "--repo", str(home / layout.BLOCKS)]
    command += ["--api", f"{api.host}:{api.port}", "--gateway", f"{gateway.host}:{gateway.port}"]
    command += ["--exit-with-stdin"]  # so that it never outlives us, whatever ends us
    daemon = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    stack.callback(_end, daemon)
    deadline = time.monotonic() + DAEMON_SECONDS
    while not _answers(store):
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise UnableError(
                f"the embedded IPFS daemon did not start (exit status {daemon.poll()}); its words are above"
            )
        time.sleep(0.2)
    return store


def _answers(store: BlockStore) -> bool:
    try:
        store.stat()
    except StoreFailed:
        return False
    return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
