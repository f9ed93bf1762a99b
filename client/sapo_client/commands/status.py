"""`sapo status`: what the node says, what the chain says of it, and whether that is well."""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_client.commands.options import chain_options, home_option, json_option, rpcs_of
from sapo_verifier.commands.program import Commands, add_parser
from sapo_verifier.errors import UnableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sapo_client.duties.standing import Asked, Told
    from sapo_client.state.settings import Settings
    from sapo_verifier.chain.deployment import Deployment

WORDS = "what the node is doing; exit status 1 if it is unhealthy"
ANSWER_SECONDS = 6.0  # for all that is asked over the network; the answer is there within ten
LEAST_SECONDS = 2.0  # of these, on a machine that takes long to load the program
RPC_SECONDS = 4.0  # for one answer of the chain's RPC, which is asked once
IPFS_SECONDS = 1.5


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "status", WORDS, run)
    home_option(parser)
    words = "a gateway of somebody else, which is asked for a block of this node: is it reached from outside?"
    parser.add_argument("--probe", metavar="URL", help=words + " (as [ipfs] probe_url says)")
    chain_options(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """See `show`."""
    return show(options.home.expanduser(), as_json=options.json, rpcs=rpcs_of(options), probe=options.probe)


def show(home: Path, *, as_json: bool, rpcs: Sequence[str] | None = None, probe: str | None = None) -> int:
    """Print the status, within ten seconds whatever the chain's RPC does; exit status 0 if the node is healthy, 1 with
    the reasons if not. rpcs: instead of the home's. Raises UnableError where nothing can be told: the node never ran.
    """
    started = time.monotonic()
    from sapo_client.duties.health.outbox import held_up, outbox_reasons, transactions, waits
    from sapo_client.duties.health.process import process_reasons, read_process
    from sapo_client.state.home import OUTBOX, REQUESTS
    from sapo_client.state.moved import refuse_moved
    from sapo_client.state.report import read_rounds, read_status
    from sapo_client.state.requests import read_requests
    from sapo_client.state.settings import Settings
    from sapo_verifier.chain.deployment import Deployment

    settings = Settings.load(home)
    refuse_moved(home)
    deployment = Deployment.load(settings.chain.deployment)
    status = read_status(home)
    if status is None:
        raise UnableError(f"the node in {home} never ran; start it with `sapo run --home {home}`")
    reports, now = read_rounds(home), time.time()
    process = read_process(home, status, reports, deployment.spec.chain.round_blocks, now)
    facts: dict[str, Any] = {
        "node": status.get("node"),
        "running": process.running,
        "pid": process.writer,
        "phase": process.phase,
        "phase_seconds": round(process.phase_seconds, 1),
        "round": status.get("round"),
        "updated_seconds_ago": round(process.silent_seconds, 1),
        "trouble": process.trouble,
    }
    if reports:
        facts["last_round"] = _last_round(reports[-1])
    outbox = home / OUTBOX
    facts["transactions"], facts["held_up"] = transactions(outbox), held_up(outbox)
    pause, requests, leaves = read_requests(home / REQUESTS)
    facts["requests"] = {f"{each.id} {each.title}": each.words or each.state for each in requests}
    reasons = process_reasons(process)
    if process.running:
        reasons += outbox_reasons(waits(status.get("waiting"), now), facts["held_up"], process.round_seconds)
    end = max(started + ANSWER_SECONDS, time.monotonic() + LEAST_SECONDS)
    asked = None if facts["node"] is None else _asked(settings, status, reports, outbox, probe)
    if asked is not None:
        asked = replace(asked, pause=pause, leaves=leaves)
    urls = rpcs or settings.chain.rpc_urls(home)
    told, others = _elsewhere(settings, urls, deployment, asked, end, ask_daemon=process.running)
    facts |= told.facts | {"healthy": not reasons + others, "reasons": reasons + others}
    _print(facts, as_json=as_json)
    return 0 if facts["healthy"] else 1


def _last_round(report: "Mapping[str, Any]") -> dict[str, Any]:
    return {
        "round": report["round"],
        "reward": f"{report['reward']}/{report['completions']}",
        "external_used": report["external_used"],
        "external_missing": report["external_missing"],
        "skipped": report["skipped"],
    }


def _asked(
    settings: "Settings",
    status: "Mapping[str, Any]",
    reports: "Sequence[Mapping[str, Any]]",
    outbox: Path,
    probe: str | None,
) -> "Asked":
    """What the chain is to be asked about; the running node's own words come before the settings."""
    from sapo_client.duties.standing import Asked
    from sapo_verifier.chain.signing import GWEI

    def number(key: str) -> int:
        found = status.get(key)
        return found if isinstance(found, int) else -1

    return Asked(
        node=str(status["node"]),
        outbox=outbox,
        endpoint=str(status.get("endpoint") or settings.ipfs.endpoint or settings.ipfs.gateway),
        fee_cap=int(settings.chain.fee_cap_gwei * GWEI),
        gas_rounds=settings.health.gas_rounds,
        allow_private=settings.ipfs.allow_private,
        last_round=settings.sapo.last_round,
        probe_url=probe or settings.ipfs.probe_url,
        playing=number("round"),
        done=number("done_round"),
        reports=reports,
    )


def _elsewhere(
    settings: "Settings",
    urls: Sequence[str],
    deployment: "Deployment",
    asked: "Asked | None",
    end: float,
    *,
    ask_daemon: bool,
) -> "tuple[Told, list[str]]":
    """What the chain and the IPFS daemon say until time.monotonic is `end`, and what is wrong with it."""
    from sapo_client.duties.health.bounded import Late, Work
    from sapo_client.duties.health.ipfs import daemon_reasons
    from sapo_client.duties.standing import Standing, Told
    from sapo_verifier import net
    from sapo_verifier.chain.errors import ChainError, mask_url
    from sapo_verifier.chain.reader import open_chain

    told = Told({"reached": "not checked: the chain did not tell in time"})

    def look() -> None:
        with open_chain(deployment, urls, timeout=RPC_SECONDS / min(2, len(urls)), tries=1) as reader:
            if asked is None:
                told.facts["chain_round"] = reader.current_round()
            else:
                Standing(reader, asked, told).look()

    given = end - time.monotonic()
    chain = Work(look)
    daemon = Work(lambda: daemon_reasons(settings.ipfs.api, IPFS_SECONDS) if ask_daemon else [])
    wrong = [] if asked else ["the node has not got as far as to know its address; see its log"]
    try:
        chain.result_by(end)
    except Late:
        where = " and ".join(map(mask_url, urls))
        wrong.append(
            f"the chain's RPC at {where} did not answer everything within {given:.0f} s, so "
            "what it says of the node is not all known; try again, and use another RPC if it stays so"
        )
    except ChainError as error:
        wrong.append(str(error))
    try:
        wrong += daemon.result_by(end)
    except Late:
        wrong.append(f"the IPFS daemon at {settings.ipfs.api} did not answer within {given:.0f} s; see its log")
    net.abort_all()  # nobody waits for what is late
    # Read in a thread that may go on for a moment.
    return Told(dict(told.facts)), wrong + [words for each in dict(told.reasons).values() for words in each]


def _print(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    for name, value in facts.items():
        if name == "pay":
            for round_, words in value.items():
                print(f"{f'pay of round {round_}':20} {words}")
        elif name != "reasons":
            print(f"{name:20} {value}")
    for reason in facts["reasons"]:
        print(f"unhealthy: {reason}")
