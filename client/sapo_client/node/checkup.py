"""What `sapo doctor` and `sapo init` look at before a node runs: a line for each thing, with what to do about it."""

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from sapo_client.duties.funding import need
from sapo_client.duties.health.money import Money, gas_of_a_round, money_reasons, rounds_left, tip_of
from sapo_client.duties.registration import refuse_useless, why_silent
from sapo_client.state.settings import Settings
from sapo_verifier.chain import rpc
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainError, ChainUnavailable, coins, mask_url
from sapo_verifier.chain.reader import ChainReader, NodeState, open_chain
from sapo_verifier.chain.signing import GWEI, base_fee
from sapo_verifier.errors import SapoError
from sapo_verifier.networks import too_few
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker, check_versions

Level = Literal["ok", "warning", "bad"]
RPC_SECONDS = 5.0  # for one answer
SLOW_SECONDS = 2.0  # an RPC that takes longer loses blocks' worth of time at every step
OLD_SECONDS = 120.0  # of the latest block: a chain that makes blocks has a younger one
AHEAD_SECONDS = 15.0  # that a block's time may be before this machine's clock


@dataclass(frozen=True)
class Line:
    """One thing that was looked at. unable: bad only in so far as it could not be told now."""

    what: str
    level: Level
    words: str
    unable: bool = False


def failed(what: str, error: SapoError) -> Line:
    return Line(what, "bad", str(error), unable=isinstance(error, ChainUnavailable))


def rpc_lines(urls: Sequence[str], chain_id: int) -> Iterator[Line]:
    """Each RPC: its latency, its chain, how far it is. Bad where none answers, a warning where another one does."""
    lines = [_rpc_line(url, chain_id) for url in urls]
    answers = any(line.level != "bad" for line in lines)
    for line in lines:
        spared = answers and line.unable
        yield Line(line.what, "warning", line.words, unable=True) if spared else line


def _rpc_line(url: str, chain_id: int) -> Line:
    what = f"RPC {mask_url(url)}"
    try:
        w3 = rpc.connect(url, retries=1, timeout=RPC_SECONDS)
    except ChainError as error:
        return failed(what, error)
    try:
        with rpc.transport(url):
            found = int(w3.eth.chain_id)
            started = time.monotonic()
            head = w3.eth.get_block("latest")
            seconds = time.monotonic() - started
    except ChainError as error:
        return failed(what, error)
    finally:
        rpc.close(w3)
    if found != chain_id:
        return Line(what, "bad", f"is of chain {found}, and the network is on chain {chain_id}: name another one")
    words = f"answers in {seconds * 1000:.0f} ms, block {head['number']}"
    if seconds > SLOW_SECONDS:
        return Line(what, "warning", f"{words}: that is slow; name another one before it")
    return Line(what, "ok", words)


def clock_line(reader: ChainReader) -> Line:
    """This machine's clock, against the time of the chain's latest block."""
    with rpc.transport(reader.rpc_url):
        age = time.time() - int(reader.w3.eth.get_block("latest")["timestamp"])
    if age < -AHEAD_SECONDS:
        return Line("clock", "warning", f"the latest block is {-age:.0f} s ahead of this machine: set its clock (NTP)")
    if age > OLD_SECONDS:
        words = f"the latest block is {age:.0f} s old: the chain or the RPC stands still, or this clock is ahead (NTP)"
        return Line("clock", "warning", words)
    return Line("clock", "ok", f"the latest block is {max(0.0, age):.0f} s old")


def chain_lines(
    settings: Settings, home: Path, deployment: Deployment, urls: Sequence[str], lasts: Callable[[float], None]
) -> Iterator[Line]:
    """The chain's contracts, its clock, and what it says of this node and its account. lasts: told a round's seconds,
    where two blocks tell."""
    try:
        with open_chain(deployment, urls, timeout=RPC_SECONDS, tries=1) as reader:
            begun = reader.block_number() >= deployment.first_block
            when = f"round {reader.current_round()}" if begun else f"round 0 begins at block {deployment.first_block}"
            words = f"{deployment.chain_id}: contracts and spec are those of the deployment; {when}"
            yield Line("chain", "ok", words)
            blocks = deployment.spec.chain.round_blocks
            if seconds := reader.seconds_per_block(blocks):
                lasts(seconds * blocks)
            yield clock_line(reader)
            yield from size_lines(reader)
            yield from node_lines(settings, home, reader)
    except ChainError as error:
        yield failed("chain", error)


def size_lines(reader: ChainReader) -> Iterator[Line]:
    """Whether as many nodes take part as the network's quorums are made for; nothing while no round is over."""
    if (last := reader.current_round() - 1) < 1:
        return
    nodes, rules = reader.round_at(last).count, reader.deployment.spec.chain
    words = too_few(rules, nodes)
    yield Line("nodes", "warning", f"in round {last} {words}") if words else Line("nodes", "ok", f"{nodes} take part")


def node_lines(settings: Settings, home: Path, reader: ChainReader) -> Iterator[Line]:
    """The node's place in the contracts, and the account that sends."""
    from sapo_client.state.home import KEYSTORE, OUTBOX

    operator = operator_of(home / KEYSTORE)
    if operator is None:
        yield Line("key", "bad", f"{home / KEYSTORE} is no keystore: restore it from your backup")
        return
    node = settings.chain.owner or operator
    spec, info = reader.deployment.spec, reader.node_of(node)
    whose = node if node == operator else f"{node}, by its operator {operator}"
    if info.state in (NodeState.NONE, NodeState.WITHDRAWN):
        yield Line("node", "warning", f"{whose} is not registered: {how_to_register(reader, node, operator)}")
        return
    try:
        refuse_useless(info, operator)
    except SapoError as error:
        yield Line("node", "bad", str(error))
        return
    silent = why_silent(info, int(spec.chain.bond, 16))
    yield Line("node", "warning", silent) if silent else Line("node", "ok", f"{whose} is registered and active")
    with rpc.transport(reader.rpc_url):
        fee = base_fee(reader.w3)
    outbox = home / OUTBOX
    gas = gas_of_a_round(outbox, reader.deployment.first_block, spec.chain.round_blocks)
    cap, rounds = int(settings.chain.fee_cap_gwei * GWEI), settings.health.gas_rounds
    money = Money(operator, reader.balance(operator), gas, fee + tip_of(outbox), rounds, fee, cap)
    reasons = money_reasons(money)
    held = f"{coins(money.balance)} coins at {operator}: gas for {rounds_left(money)}"
    level: Level = "ok" if not reasons else "bad" if money.balance == 0 else "warning"
    yield Line("funds", level, "; ".join(reasons) or held)


def how_to_register(reader: ChainReader, node: str, operator: str) -> str:
    """What to send, as one sum, and what comes then."""
    bond = int(reader.deployment.spec.chain.bond, 16)
    if node != operator:
        return (
            f"its owner calls Nodes.register with the bond of {coins(bond)} coins; send the operator "
            f"{need(reader, operator, 0).words}"
        )
    asked = need(reader, operator, bond)
    if not asked.missing:
        return f"it holds {coins(asked.held)} coins, which is enough; `sapo run --register` locks the bond"
    return f"send {operator} {asked.words}; then `sapo run --register` locks the bond"


def operator_of(keystore: Path) -> str | None:
    """The key's address, which a keystore file holds beside the secret; None where it does not."""
    try:
        found = json.loads(keystore.read_bytes())
    except (OSError, ValueError):
        return None
    address = str(found.get("address", "")) if isinstance(found, dict) else ""
    return "0x" + address.removeprefix("0x").lower() if len(address) >= 40 else None


def version_lines(spec: Spec) -> Iterator[Line]:
    """What has to be the same on every machine, or tasks would differ: it is tried, once for each installation."""
    try:
        found = version("reasoning-gym")
    except PackageNotFoundError:
        yield Line("versions", "bad", "this installation has no reasoning-gym: `pip install sapo-network[node]`")
        return
    try:
        with TaskWorker() as worker:
            check_versions(spec, worker)
    except SapoError as error:
        yield Line("versions", "bad", str(error))
    else:
        words = f"reasoning-gym {found}, and with Python {platform.python_version()} its tasks are the network's"
        yield Line("versions", "ok", words)
