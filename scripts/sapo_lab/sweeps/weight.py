"""What a long-running node's history weighs: rounds of reports and transactions, written and forgotten as a node does.

scripts/in-venv -m sapo_lab.sweeps.weight --rounds 5000 --history 2000
"""

import argparse
import dataclasses
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from sapo_client.node.history import EVERY
from sapo_client.state import home as layout
from sapo_client.state.report import ROUNDS_FILE, RoundReport, compact_rounds
from sapo_client.training.sapo import StepStats
from sapo_client.transactions.store import Attempt, OutboxStore
from sapo_verifier.chain.contracts import Call

NODE = "0x" + "ab" * 20
BLOCKS = 20  # of a round
FRAME = 120  # bytes of a signed transaction beside its call: fees, nonce, signature


def calls_of(round_: int, luck: random.Random) -> dict[str, Call]:
    """What a node that publishes and votes sends in a round, every third one with the beacon and a second stage."""
    word, digest = luck.getrandbits(256), luck.randbytes(32)
    reveal = (NODE, round_, 1, word, digest, luck.randbytes(128), digest)
    made = {
        f"commit/{round_}": Call("rounds", "commitPolicy", (NODE, round_, digest, 4)),
        f"submit/{round_}": Call("rounds", "submit", (NODE, round_, digest, digest, digest, word)),
        f"verdicts/{round_}/1": Call("audits", "commitVerdicts", (NODE, round_, 1, digest, digest, digest)),
        f"reveal/{round_}/1": Call("audits", "revealVerdicts", reveal),
        f"claim/{round_}": Call("rewards", "claimMany", (NODE, (round_,))),
    }
    if round_ % 3 == 0:
        made |= {
            f"poke/{round_}": Call("rounds", "poke"),
            f"verdicts/{round_}/2": Call("audits", "commitVerdicts", (NODE, round_, 2, digest, digest, digest)),
            f"reveal/{round_}/2": Call("audits", "revealVerdicts", reveal),
        }
    return made


def play(home: Path, rounds: int, history: int) -> None:
    """history: rounds that are kept; 0: all of them."""
    luck, nonce = random.Random(1), 0
    store = OutboxStore(home / layout.OUTBOX, "weighed")
    store._db.execute("PRAGMA synchronous = OFF")  # how much there is, not whether it survives
    for round_ in range(rounds):
        for key, call in calls_of(round_, luck).items():
            entry, raw = store.add(key, call, 0, round_), luck.randbytes(FRAME + len(call.encode()))
            attempt = Attempt(luck.randbytes(32), entry.id, nonce, raw, 10**5, 10**9, 10**9, False, round_ * BLOCKS)
            store.add_attempt(attempt)
            store.update(entry, status="mined", block=round_ * BLOCKS, hash=attempt.hash, confirmed=1)
            nonce += 1
        numbers = {field.name: luck.random() for field in dataclasses.fields(StepStats)}
        RoundReport(round=round_, completions=32, bytes_up=10**6, bytes_down=10**6, training=numbers).append_to(home)
        if history and round_ % EVERY == 0:
            compact_rounds(home, history)
            store.compact(round_, history, 0, BLOCKS)
    store.close()


def weigh(play_in: Callable[[Path], None]) -> dict[str, int]:
    """Bytes by file."""
    with tempfile.TemporaryDirectory() as folder:
        play_in(Path(folder))
        return {name: (Path(folder) / name).stat().st_size for name in (layout.OUTBOX, ROUNDS_FILE)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Weigh the history that a node keeps.")
    parser.add_argument("--rounds", type=int, default=5000, help="that it has run (%(default)s)")
    parser.add_argument("--history", type=int, default=2000, help="[history] rounds (%(default)s)")
    options = parser.parse_args()
    kept = weigh(lambda home: play(home, options.rounds, options.history))
    everything = weigh(lambda home: play(home, options.rounds, 0))
    for name, size in kept.items():
        print(f"{name}: {size / 1e6:.1f} MB after {options.rounds} rounds; {everything[name] / 1e6:.1f} MB with all")


if __name__ == "__main__":
    main()
