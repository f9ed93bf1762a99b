"""A devnet that goes on until it is told to end: `sapo devnet up`, and `scripts/devnet --serve`."""

import argparse
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sapo_devnet.devnet import Devnet
from sapo_devnet.network import in_words
from sapo_devnet.state import RUN, STATE, claim, write
from sapo_verifier import keystore
from sapo_verifier.errors import SapoError
from sapo_verifier.network_file import NetworkFile

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, kill, a terminal that is closed
POLL_SECONDS = 0.5


class _Ended(BaseException):
    """Somebody wants it to end."""


def _end(*_: object) -> None:
    for number in ENDS:
        signal.signal(number, signal.SIG_IGN)  # ending takes less than a minute, and nothing interrupts it
    raise _Ended


def serve(folder: Path, options: argparse.Namespace, tell: Callable[[dict[str, Any]], None]) -> int:
    """Plays until a signal; exit status 0 then. tell: what is there, once it is ready.

    Raises SapoError where it cannot be started, or fails later.
    """
    claim(folder)  # for as long as this process lives
    before = {number: signal.signal(number, _end) for number in ENDS}
    try:
        write(folder, {"folder": str(folder), "pid": os.getpid()})
        run = folder / RUN
        shutil.rmtree(run, ignore_errors=True)  # of the last one
        net = Devnet(
            nodes=options.nodes,
            formula=options.formula,
            rounds=options.rounds,
            pace=options.round_seconds,
            policy=options.policy,
            folder=run,
            port=options.port,
        )
        with net:
            found = _described(folder, net)
            write(folder, found)
            tell({"running": True, **found})
            while True:
                time.sleep(POLL_SECONDS)
                _ = net.round  # raises what has failed
    except _Ended:
        (folder / STATE).unlink(missing_ok=True)
        return 0
    except SapoError as error:
        with contextlib.suppress(OSError):  # a full disk: the error tells of it
            write(folder, {"folder": str(folder), "pid": os.getpid(), "error": str(error)})
        raise
    except OSError as error:
        raise in_words(error, folder) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _described(folder: Path, net: Devnet) -> dict[str, Any]:
    """What a stranger needs to join: the network, and a key with coins."""
    guest = net.folder / "guest"
    keystore.write_random_password(guest / "password")
    password = keystore.read_password(guest / "password")
    address = keystore.create(guest / "keystore.json", password, work_factor=keystore.LIGHT_WORK_FACTOR)
    net.fund(address)
    bases = {base.id: str(net.policy) for base in net.deployment.spec.bases if net.policy is not None}
    document = {
        "name": "devnet",
        "chain_id": net.deployment.chain_id,
        "rpc": [net.rpc],
        "gateways": list(dict.fromkeys(node.gateway for node in net.nodes)),  # formula nodes share one
        "bases": bases,
        "deployment": net.deployment,
    }
    network = net.folder / "network.toml"
    NetworkFile.checked(document, "the devnet").save(network)
    return {
        "ready": True,
        "folder": str(folder),
        "pid": os.getpid(),
        "network": str(network),
        "chain_id": net.deployment.chain_id,
        "rpc": net.rpc,
        "deployment": str(net.deployment_file),
        "bases": bases,
        "gateways": net.gateways,
        "keystore": str(guest / "keystore.json"),
        "password_file": str(guest / "password"),
        "address": address,
        "accounts": [{"address": each.address, "key": "0x" + bytes(each.key).hex()} for each in net.accounts],
        "nodes": [
            {"name": node.name, "address": node.address, "gateway": node.gateway, "home": str(node.home)}
            for node in net.nodes
        ],
    }
