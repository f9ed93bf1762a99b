"""`sapo status`: what the node says, what the chain says of it, and whether that is well."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_client.commands.options import chain_options, home_option, json_option, rpcs_of
from sapo_verifier.commands.program import Commands, add_parser
from sapo_verifier.errors import SapoError

if TYPE_CHECKING:
    from sapo_client.state.settings import Settings

WORDS = "what the node is doing; exit status 1 if it is unhealthy"
STALE_SECONDS = 300.0  # a status older than this comes from a node that hangs


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "status", WORDS, run)
    home_option(parser)
    chain_options(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """See `show`."""
    return show(options.home.expanduser(), as_json=options.json, rpcs=rpcs_of(options))


def show(home: Path, *, as_json: bool, rpcs: Sequence[str] | None = None) -> int:
    """Print the status; exit status 0 if the node is healthy, 1 with the reasons if not. rpcs: not the home's."""
    from sapo_client.duties.standing import held_up, transactions
    from sapo_client.state.home import OUTBOX, is_held
    from sapo_client.state.report import read_rounds, read_status
    from sapo_client.state.settings import Settings

    settings = Settings.load(home)
    status = read_status(home)
    if status is None:
        raise SapoError(f"the node in {home} never ran; start it with `sapo run --home {home}`")
    facts: dict[str, Any] = {
        "node": status.get("node"),
        "running": is_held(home),
        "phase": status.get("phase"),
        "round": status.get("round"),
        "updated_seconds_ago": round(time.time() - status["updated"], 1),
        "trouble": status.get("trouble") or "",
    }
    reports = read_rounds(home)
    if reports:
        last = reports[-1]
        facts["last_round"] = {
            "round": last["round"],
            "reward": f"{last['reward']}/{last['completions']}",
            "external_used": last["external_used"],
            "external_missing": last["external_missing"],
            "skipped": last["skipped"],
        }
    facts["transactions"] = transactions(home / OUTBOX)
    facts["held_up"] = held_up(home / OUTBOX)
    reasons = _own_reasons(facts) + _chain_facts(settings, rpcs or settings.chain.rpc_urls(home), facts)
    facts["healthy"] = not reasons
    facts["reasons"] = reasons
    if as_json:
        print(json.dumps(facts, indent=1))
    else:
        for name, value in facts.items():
            if name != "reasons":
                print(f"{name:20} {value}")
        for reason in reasons:
            print(f"unhealthy: {reason}")
    return 0 if not reasons else 1


def _own_reasons(facts: dict[str, Any]) -> list[str]:
    if not facts["running"]:
        return [f"the node is not running (its last phase was: {facts['phase']}); start it with `sapo run`"]
    if facts["updated_seconds_ago"] > STALE_SECONDS:
        return [f"the node has said nothing for {facts['updated_seconds_ago']:.0f} s; see its log"]
    return [facts["trouble"]] if facts["trouble"] else []


def _chain_facts(settings: "Settings", rpcs: Sequence[str], facts: dict[str, Any]) -> list[str]:
    """Adds what the chain says; returns what is wrong with it."""
    from sapo_client.duties.standing import chain_facts
    from sapo_verifier.chain.deployment import Deployment
    from sapo_verifier.chain.errors import ChainError
    from sapo_verifier.chain.reader import open_chain

    deployment = Deployment.load(settings.chain.deployment)
    try:
        with open_chain(deployment, rpcs) as reader:
            if facts["node"] is None:
                facts["chain_round"] = reader.current_round()
                return ["the node has not got as far as to know its address; see its log"]
            return chain_facts(reader, facts, facts["node"])
    except ChainError as error:
        return [str(error)]
