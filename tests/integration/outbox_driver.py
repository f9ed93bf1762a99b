"""Run by test_outbox.py in a process of its own: puts one call, pumps, and kills itself (SIGKILL) at a named step.

Usage: outbox_driver.py STEP RPC DEPLOYMENT OUTBOX KEY
"""

import os
import signal
import sys
from typing import Any

from eth_account import Account

from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.store import OutboxStore
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.reader import ChainReader


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    step, url, deployment, path, key = sys.argv[1:]
    outbox = Outbox(path, ChainReader(url, Deployment.load(deployment)), Account.from_key(key))
    send = outbox._wire.sender.eth.send_raw_transaction
    if step == "before signing":
        outbox._sign = die  # type: ignore[method-assign]
    elif step == "while storing":
        # The signed transaction is written, and the process ends before the commit.
        outbox._store._db.set_trace_callback(lambda sql: die() if sql.startswith("UPDATE entry SET status") else None)
    elif step == "before sending":
        outbox._wire.sender.eth.send_raw_transaction = die  # type: ignore[method-assign]
    elif step == "after sending":
        outbox._wire.sender.eth.send_raw_transaction = lambda raw: die(send(raw))  # type: ignore
    elif step == "before the receipt":
        OutboxStore.update = die  # type: ignore[method-assign, assignment]
    outbox.put("endpoint", Call("nodes", "setEndpoint", ("/ip4/10.0.0.1/tcp/81/http",)))
    outbox.pump()
    outbox.reader.w3.provider.make_request("evm_mine", [])  # type: ignore[arg-type]
    outbox.pump()


if __name__ == "__main__":
    main()
