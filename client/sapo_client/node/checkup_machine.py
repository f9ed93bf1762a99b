"""What `sapo doctor` looks at on this machine: the home, its policy's files, blocks and their endpoint, the disk."""

import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sapo_client.duties.health.ipfs import daemon_reasons, probe
from sapo_client.generation.factory import check_engine
from sapo_client.node.checkup import RPC_SECONDS, Line, failed, operator_of
from sapo_client.state import home as layout
from sapo_client.state.joining import refuse_too_many
from sapo_client.state.report import read_rounds
from sapo_client.state.settings import Settings
from sapo_client.transactions.belongs import refuse_other_network
from sapo_verifier.bases import Bases, base_in
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainError
from sapo_verifier.chain.reader import open_chain
from sapo_verifier.errors import SapoError
from sapo_verifier.folders import check_supported
from sapo_verifier.ipfs import parse_endpoint
from sapo_verifier.spec import Spec

IPFS_SECONDS = 3.0
CONNECT_SECONDS = 3.0
PROBE_SECONDS = 10.0
KEPT_ROUNDS = 16  # of blocks: eight beyond the round that needs them (docs/operators.md), and that lasts six
CHECKPOINTS = 3  # weights and twice as much of the optimizer's
MEBIBYTE = 1 << 20
LOOK_BACK = 20  # rounds whose traffic tells what a round takes


def home_lines(settings: Settings, home: Path, deployment: Deployment) -> Iterator[Line]:
    """Settings that fit the network, and the files of the base."""
    spec = deployment.spec
    try:
        refuse_other_network(home, home / layout.OUTBOX, deployment)
        refuse_too_many(settings.sapo.own_groups, spec, str(home / "node.toml"))
        check_engine(settings.generation)
        yield Line("home", "ok", f"{home}: its settings fit the network")
    except SapoError as error:
        yield Line("home", "bad", str(error))
    try:
        base = base_in(spec, settings.policy.folder, settings.policy.base)
        folder = Bases([settings.policy.folder, *settings.audit.bases]).folder(base)
        check_supported(folder)
        yield Line("base", "ok", f"{folder} holds {base.id}, byte for byte")
    except SapoError as error:
        yield Line("base", "bad", str(error))


def serving_lines(
    settings: Settings, home: Path, deployment: Deployment, urls: Sequence[str], *, running: bool, probe_url: str | None
) -> Iterator[Line]:
    """The daemon, and whether its blocks are reached: from this machine, and from outside where somebody else is asked.

    running: the node is, so that its daemon has to be there.
    """
    reasons = daemon_reasons(settings.ipfs, home, IPFS_SECONDS)
    if not reasons:
        yield Line("IPFS daemon", "ok", f"answers at {settings.ipfs.api}")
    elif running or settings.ipfs.daemon == "external":
        yield Line("IPFS daemon", "bad", "; ".join(reasons))
    else:
        yield Line("IPFS daemon", "ok", f"none at {settings.ipfs.api}: the node starts its own there")
    try:
        endpoint = layout.public_endpoint(settings.ipfs, f"{home / 'node.toml'}: [ipfs] endpoint")
    except SapoError as error:
        yield Line("endpoint", "bad", str(error))
        return
    yield _from_here(endpoint, expected=running or not reasons)
    yield _from_outside(settings, home, deployment, urls, endpoint, probe_url)


def _from_here(endpoint: str, *, expected: bool) -> Line:
    """A connection to it, which says little: a router may lead this machine's own connections elsewhere."""
    what = "endpoint from here"
    try:
        found = parse_endpoint(endpoint, allow_private=True)
        address = found.addresses(CONNECT_SECONDS)[0]
        started = time.monotonic()
        socket.create_connection((str(address), found.port), timeout=CONNECT_SECONDS).close()
    except (OSError, SapoError) as error:
        if not expected:
            return Line(what, "ok", f"{endpoint}: nobody listens there yet; the node's daemon will")
        return Line(what, "warning", f"{endpoint} takes no connection from this machine ({error}): see router and name")
    return Line(what, "ok", f"{endpoint} takes connections ({(time.monotonic() - started) * 1000:.0f} ms)")


def _from_outside(
    settings: Settings, home: Path, deployment: Deployment, urls: Sequence[str], endpoint: str, probe_url: str | None
) -> Line:
    what = "endpoint from outside"
    if probe_url is None:
        return Line(what, "ok", "not tried: name a gateway of somebody else with --probe URL")
    node = settings.chain.owner or operator_of(home / layout.KEYSTORE)
    try:
        with open_chain(deployment, urls, timeout=RPC_SECONDS, tries=1) as reader:
            begun = reader.block_number() >= deployment.first_block
            rounds = (reader.current_round() + 1, reader.current_round()) if begun else ()
            policies = [reader.policy_of(node, round_) for round_ in rounds] if node else []
    except ChainError as error:
        return failed(what, error)
    published = next((policy for policy in policies if policy is not None), None)
    if published is None:
        return Line(what, "ok", "not tried: the node has published nothing lately that could be asked for")
    try:
        reached, words = probe(probe_url, published.digest, endpoint, PROBE_SECONDS)
    except SapoError as error:
        return Line(what, "bad", str(error))
    return Line(what, "ok", words) if reached else Line(what, "bad", f"{words}: see router, firewall, certificate")


def disk_line(settings: Settings, home: Path, spec: Spec) -> Line:
    """Free space, against what rounds take as they were measured here, or else at most."""
    free = shutil.disk_usage(home).free
    took = [report.get("bytes_up", 0) + report.get("bytes_down", 0) for report in read_rounds(home)[-LOOK_BACK:]]
    measured = sum(took) // len(took) if any(took) else 0
    policy = next((base.max_adapter_bytes for base in spec.bases if base.id == settings.policy.base), 0)
    round_ = measured or (1 + spec.chain.draws) * policy
    needed = KEPT_ROUNDS * round_ + 3 * CHECKPOINTS * policy
    how = f"measured over {len(took)} rounds" if measured else "at most, by the network's rules"
    words = (
        f"{free / MEBIBYTE:,.0f} MiB free; a round takes {round_ / MEBIBYTE:,.1f} MiB ({how}), and {KEPT_ROUNDS} "
        f"rounds with the checkpoints {needed / MEBIBYTE:,.0f} MiB"
    )
    if free < round_:
        return Line("disk", "bad", f"{words}: make room")
    return Line("disk", "warning" if free < needed else "ok", words)
