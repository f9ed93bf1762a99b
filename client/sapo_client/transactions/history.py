"""What an outbox may forget: calls that are settled for good, and that nobody will ask for again.

A key in the outbox is why nothing is sent twice, so it goes only where all of this holds:

- its kind is one of KINDS: keys that name a round, a block or a batch, and are asked for within so many rounds of it;
- it failed, expired or was mined, and no reorganization can change that any more: it is confirmed, or holds no nonce.
  So every nonce that the account may still need is held, and the next one follows from those and from the chain;
- that, and its deadline, lie `rounds` rounds back: many more than any of KINDS are asked for.
"""

import sqlite3

# What the keys of a kind are about, and for how many rounds after it was settled somebody may ask for one. What is not
# here, such as "register/", stays for ever.
KINDS = {
    "poke": 1,  # a round: asked for in it
    "answer": 1,
    "submit": 1,
    "top-up": 1,
    "commit": 1,  # a round: asked for in the one before
    "verdicts": 1,  # a round and a stage: in the round of its commitment
    "reveal": 1,
    "claim": 1,  # a final round: in the one in which it became final. Those of `sapo claim` name what is not claimed
    "endpoint": 1,  # a block: while it is the latest one; or a number, as those of life
    "life": 1,  # a number: until the request that it is of is settled (duties/requests.py)
    "dispute": 50,  # a round and a batch: its bond comes back in 38 rounds; one that was lost counts for 50
    "absent": 50,
    "answers": 38,  # a round and a batch, and the one that it is about: its bond comes back in 38 rounds
    "bounty": 9,  # a batch: as a slash
    "close": 38,  # a batch: as long as its dispute is looked for
    "close-answers": 38,
    "prove": 6,  # a batch: until its round is final
    "slash": 9,  # a batch: three rounds after it became final
    "settle": 20,  # a round: while its debtor is known and owes it, or three rounds after it became final
    "empty": 0,  # a nonce, and when it was filled: never
}
MOST = 10_000  # entries that one pass dates or deletes: well below a second
LEAST_FREE = 1 << 20  # bytes that make it worth while to write the file anew, if a quarter of it is free

_OVER = "status IN ('mined', 'failed', 'expired') AND (confirmed = 1 OR nonce IS NULL)"


def compact(db: sqlite3.Connection, current: int, rounds: int, first_block: int, round_blocks: int) -> bool:
    """One pass, in one transaction; after the last one the file shrinks, if that pays. Whether there is more to do.

    What is over is dated first: by the block in which it was mined, or else by this pass, in round `current`.
    first_block: of round 0. round_blocks: of a round.
    """
    before = current - rounds
    kinds = ", ".join("?" * len(KINDS))
    with db:
        dated = db.execute(
            f"UPDATE entry SET settled = CASE WHEN block IS NULL THEN ? ELSE (block - ?) / ? END "  # noqa: S608
            f"WHERE id IN (SELECT id FROM entry WHERE settled IS NULL AND {_OVER} ORDER BY id LIMIT {MOST})",
            (current, first_block, round_blocks),
        ).rowcount
        old = (
            f"SELECT id FROM entry WHERE settled < ? AND (deadline IS NULL OR deadline < ?) AND {_OVER} "  # noqa: S608
            f"AND substr(key, 1, instr(key, '/') - 1) IN ({kinds}) ORDER BY settled LIMIT {MOST}"
        )
        ids = [(row[0],) for row in db.execute(old, (before, before, *KINDS))]
        db.executemany("DELETE FROM attempt WHERE entry = ?", ids)
        db.executemany("DELETE FROM entry WHERE id = ?", ids)
    more = MOST in (dated, len(ids))
    if not more:
        _shrink(db)
    return more


def _shrink(db: sqlite3.Connection) -> None:
    """Writes the file anew where a quarter of it is free. Takes as long as what is in use takes to be copied."""
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    if free * size >= LEAST_FREE and 4 * free >= pages:
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
