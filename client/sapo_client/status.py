"""`sapo status`: what the node says, what the chain says of it, and whether that is well."""

import json
import time
from pathlib import Path
from typing import Any

from sapo_client.config import Settings
from sapo_client.home import is_held
from sapo_client.report import read_rounds, read_status
from sapo_verifier.errors import SapoError

STALE_SECONDS = 300.0  # a status older than this comes from a node that hangs
ROUNDS_BEHIND = 2


def show(home: Path, *, as_json: bool) -> int:
    """Print the status; exit status 0 if the node is healthy, 1 with the reasons if not."""
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
    reasons = _own_reasons(facts) + _chain_facts(settings, facts)
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


def _chain_facts(settings: Settings, facts: dict[str, Any]) -> list[str]:
    """Adds what the chain says; returns what is wrong with it."""
    from sapo_verifier.chain.deployment import Deployment
    from sapo_verifier.chain.errors import ChainError, coins
    from sapo_verifier.chain.reader import ChainReader

    reader = ChainReader(settings.chain.rpc, Deployment.load(settings.chain.deployment))
    try:
        reader.check()
        current = reader.current_round()
        facts["chain_round"] = current
        if facts["node"] is None:
            return ["the node has not got as far as to know its address; see its log"]
        info = reader.node_of(facts["node"])
        facts |= {"state": info.state.value, "bond": coins(info.bond), "endpoint": info.endpoint}
        facts["balance"] = coins(reader.balance(info.operator))
    except ChainError as error:
        return [str(error)]
    finally:
        reader.close()
    if not info.active:
        return [
            f"the chain says that the node is {info.state.value} with a bond of {coins(info.bond)}: it cannot publish"
        ]
    if facts["round"] is not None and current - facts["round"] > ROUNDS_BEHIND:
        return [f"the node is in round {facts['round']}, the chain in round {current}: is this machine too slow?"]
    return []
