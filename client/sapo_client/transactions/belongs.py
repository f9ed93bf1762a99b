"""A home belongs to one network: what its outbox says of that, before anything in it is opened."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sapo_verifier.errors import UsageError

if TYPE_CHECKING:
    from sapo_verifier.chain.deployment import Deployment


def network_of(deployment: "Deployment") -> str:
    """The network as an outbox notes it: its chain and its contracts, which hold the digest of its spec."""
    return (
        f"chain {deployment.chain_id}, contract {deployment.contracts.rounds} of block 0x{deployment.block_hash.hex()}"
    )


def refuse_other_network(home: Path, outbox: Path, deployment: "Deployment") -> None:
    """Raises UsageError where the outbox is of another network than the deployment. Changes nothing.

    What cannot be read is for who opens the outbox to tell.
    """
    if not outbox.exists():
        return
    # Without a journal there is nothing beside the file; SQLite would leave one even where it only reads.
    how = "mode=ro" if outbox.with_name(outbox.name + "-wal").exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"{outbox.resolve().as_uri()}?{how}", uri=True, timeout=2.0)) as db:
            row = db.execute("SELECT identity FROM owner").fetchone()
    except sqlite3.Error:
        return
    if row is None or str(row[0]).endswith(network_of(deployment)):
        return
    raise UsageError(
        f"the home {home} is of another network than its deployment file: its transactions are those of {row[0]}, and "
        f"the file is of {network_of(deployment)}. Nothing in the home was changed. A home stays with its network: put "
        "the old deployment file back to reveal, claim and exit there, and make another home for the new network with "
        "`sapo init --home`"
    )
