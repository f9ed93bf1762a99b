"""`sapo run`: from a home folder to a running node, every part closed again however it ends."""

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import torch

from sapo_client import home as layout
from sapo_client.ballots import BallotBox
from sapo_client.config import SapoSettings, Settings
from sapo_client.node import Node, Parts
from sapo_client.outbox import Outbox
from sapo_client.pins import PinBook
from sapo_client.policy import Policy
from sapo_client.registration import ensure_registered
from sapo_client.sapo import TrainConfig
from sapo_verifier import keystore
from sapo_verifier.bases import Bases
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import SapoError
from sapo_verifier.ipfs import BlockStore, StoreFailed, parse_endpoint
from sapo_verifier.model import policy_model
from sapo_verifier.tasks import TaskWorker

log = logging.getLogger(__name__)

DAEMON_SECONDS = 120.0  # for the embedded IPFS daemon to become ready on a slow machine


def run(
    home: Path,
    password_file: Path | None,
    *,
    register: bool,
    make: Callable[[Parts, threading.Event], Node] = Node,
) -> None:
    """Run the node that `make` gives until SIGTERM or SIGINT. Raises SapoError with what to do where something is
    missing."""
    settings = Settings.load(home)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as stack:
        stack.enter_context(layout.only_one(home))
        parts = _assemble(home, settings, password_file, register, stop, stack)
        if not stop.is_set():
            make(parts, stop).run()


def _assemble(
    home: Path, settings: Settings, password_file: Path | None, register: bool, stop: threading.Event, stack: ExitStack
) -> Parts:
    account = keystore.load(home / layout.KEYSTORE, keystore.read_password(password_file))
    operator = account.address.lower()
    node = settings.chain.owner or operator
    if settings.threads:
        torch.set_num_threads(settings.threads)
    deployment = Deployment.load(settings.chain.deployment)
    reader = ChainReader(settings.chain.rpc, deployment)
    stack.callback(reader.close)
    reader.check()
    store = _store(home, settings, stack)
    worker = stack.enter_context(TaskWorker())
    worker.check_versions(deployment.spec)
    bases = Bases([settings.policy.folder, *settings.audit.bases])
    policy = _policy(settings, deployment, bases)
    outbox = Outbox(home / layout.OUTBOX, reader, account)
    stack.callback(outbox.close)
    pins = PinBook(home / layout.PINS)
    stack.callback(pins.close)
    ballots = BallotBox(home / layout.BALLOTS) if settings.audit.vote else None
    if ballots is not None:
        stack.callback(ballots.close)
    endpoint = settings.ipfs.endpoint or settings.ipfs.gateway
    parse_endpoint(endpoint, allow_private=settings.ipfs.allow_private)  # peers would refuse what we refuse
    ensure_registered(reader, outbox, node, operator, endpoint, register=register, stop=stop)
    return Parts(
        home=home,
        node=node,
        reader=reader,
        outbox=outbox,
        store=store,
        worker=worker,
        policy=policy,
        bases=bases,
        model=policy_model(bases) if settings.audit.policy_check else None,
        pins=pins,
        ballots=ballots,
        config=train_config(settings.sapo),
        seed=settings.sapo.seed,
        poll_seconds=settings.chain.poll_seconds,
        audit_seconds=settings.audit.seconds,
        last_round=settings.sapo.last_round,
    )


def _policy(settings: Settings, deployment: Deployment, bases: Bases) -> Policy:
    base = deployment.spec.base(settings.policy.base)
    if base is None:
        raise SapoError(f"the network's spec has no base {settings.policy.base!r}; see [policy] in the settings")
    return Policy.load(bases.folder(base), base)


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
    command = [sys.executable, "-m", "sapo_verifier.ipfs.daemon", "--repo", str(home / layout.BLOCKS)]
    command += ["--api", f"{api.host}:{api.port}", "--gateway", f"{gateway.host}:{gateway.port}"]
    command += ["--exit-with-stdin"]  # so that it never outlives us, whatever ends us
    daemon = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    stack.callback(_end, daemon)
    deadline = time.monotonic() + DAEMON_SECONDS
    while not _answers(store):
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise SapoError(
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
