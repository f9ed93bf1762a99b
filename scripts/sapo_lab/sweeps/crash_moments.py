"""A node that is killed (SIGKILL) at one named moment in every round, beside one that is not, and what must hold then.

One process per moment: it recovers from the last crash, ends that round, and dies in the next one.
"""

import os
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sapo_client.policy.checkpoint import latest_checkpoint
from sapo_client.state.home import OWED
from sapo_devnet.nodes import DevnetNode
from sapo_devnet.processes import Process
from sapo_devnet.testkit.alive import wait_until
from sapo_devnet.testkit.swarm import SECONDS, Swarm, sapo, swarm
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import pages
from sapo_verifier.cid import block_digest
from sapo_verifier.objects import NO_AUDIT, BatchManifest, PolicyManifest

RUNNER = Path(__file__).with_name("crash_runner.py")
FIRST = 4  # the round of the first crash: by then there are batches to audit, votes to reveal, and old checkpoints
OWN, EXTERNAL = 2, 2  # I and J of both nodes


@dataclass(frozen=True)
class Moment:
    """Where the process ends. at: the dotted name as its caller finds it; call and holds: see crash_runner.py."""

    words: str
    at: str
    when: str = "before"
    call: int = 1
    holds: str = ""
    start: bool = False  # while the node starts, rather than in a round
    alone: bool = False  # the other node waits meanwhile, or it might do the step first


@dataclass(frozen=True)
class Crash:
    """One moment and what came of it."""

    moment: Moment
    round: int
    seconds: float  # from the crash until the round was done


OUTBOX, STORE = "sapo_client.transactions.outbox.Outbox", "sapo_client.transactions.store.OutboxStore"
CHECKPOINT, NODE, LEARNING = "sapo_client.policy.checkpoint", "sapo_client.node.loop", "sapo_client.node.learner"

MOMENTS = [
    Moment("the beacon's poke is stored", f"{OUTBOX}.put", "after", holds="'poke/", alone=True),
    Moment("the beacon's poke is sent", f"{OUTBOX}._send", "after", holds="'poke/", alone=True),
    Moment("the beacon is known", f"{NODE}.Node._beacon", "after"),
    Moment("a batch is to be generated", "sapo_client.batches.own_batch.make_batch"),
    Moment("a batch was generated", "sapo_client.batches.own_batch.make_batch", "after"),
    Moment("its own checks passed", "sapo_client.batches.own_batch.check_own", "after"),
    Moment("its blocks are noted", "sapo_client.batches.pins.PinBook.keep", "after"),
    Moment("the first block was put", "sapo_verifier.ipfs.BlockStore.put", "after"),
    Moment("the last block was put", "sapo_verifier.ipfs.BlockStore.put", "after", call=2 * OWN + 1),
    Moment("the submission is to be stored", f"{OUTBOX}.put", holds="'submit/"),
    Moment("the submission is stored", f"{OUTBOX}.put", "after", holds="'submit/"),
    Moment("the submission is to be signed", f"{OUTBOX}._sign", holds="'submit/"),
    Moment("signed, not stored", f"{STORE}.add_attempt"),
    Moment("signed and stored, not sent", f"{OUTBOX}._send", holds="'submit/"),
    Moment("sent", f"{OUTBOX}._send", "after", holds="'submit/"),
    Moment("mined, not noted", f"{STORE}.update", holds="status': 'mined"),
    Moment("mined and noted", f"{STORE}.update", "after", holds="status': 'mined"),
    Moment("a window's batch is to be fetched", "sapo_client.batches.auditing.fetch_batch"),
    Moment("a window's batch was fetched", "sapo_client.batches.auditing.fetch_batch", "after"),
    Moment("a ballot is to be stored", "sapo_client.duties.ballots.BallotBox.put"),
    Moment("a ballot is stored", "sapo_client.duties.ballots.BallotBox.put", "after"),
    Moment("verdicts are to be committed", f"{OUTBOX}.put", holds="'verdicts/"),
    Moment("verdicts are sent", f"{OUTBOX}._send", "after", holds="'verdicts/"),
    Moment("verdicts are to be revealed", f"{OUTBOX}.put", holds="'reveal/"),
    Moment("training is to start", f"{LEARNING}.train_step"),
    Moment("trained, nothing saved", f"{LEARNING}.train_step", "after"),
    Moment("a checkpoint is to be written", f"{CHECKPOINT}._save"),
    Moment("half of its files are written", f"{CHECKPOINT}.write_file", "after", call=2),
    Moment("its files are written, not renamed", "pathlib.Path.rename", holds=".writing-"),
    Moment("it has its name", "pathlib.Path.rename", "after", holds=".writing-"),
    Moment("old checkpoints are to be removed", f"{CHECKPOINT}._folders"),
    Moment("the checkpoint is saved", f"{LEARNING}.save_checkpoint", "after"),
    Moment("the next policy is to be committed", f"{OUTBOX}.put", holds="'commit/"),
    Moment("the commitment is stored", f"{OUTBOX}.put", "after", holds="'commit/"),
    Moment("the commitment is sent", f"{OUTBOX}._send", "after", holds="'commit/"),
    Moment("its transactions are settled", f"{NODE}.Node._wait_for_transactions", "after"),
    Moment("a block is to be let go", "sapo_verifier.ipfs.BlockStore.unpin"),
    Moment("let go and not forgotten", "sapo_client.batches.pins.PinBook.forget"),
    Moment("blocks are to be collected", "sapo_verifier.ipfs.BlockStore.collect"),
    Moment("blocks were collected", "sapo_verifier.ipfs.BlockStore.collect", "after"),
    Moment("the round is to be reported", "sapo_client.state.report.RoundReport.append_to"),
    Moment("the round is reported", "sapo_client.state.report.RoundReport.append_to", "after"),
    Moment("the status is to be renamed", "pathlib.Path.replace", holds="status.tmp", call=4),
    Moment("the home is locked", "sapo_client.state.home.lock_file", "after", start=True),
    Moment("the key is to be read", "sapo_verifier.keystore.load", start=True),
    Moment("the outbox is open", f"{STORE}._open", "after", start=True),
    Moment("registration was looked up", "sapo_client.node.start.ensure_registered", "after", start=True),
    Moment("old reports are to be forgotten", "sapo_client.node.history.compact_rounds", start=True),
    Moment("old reports were forgotten", "sapo_client.node.history.compact_rounds", "after", start=True),
    Moment("old transactions are to be forgotten", f"{OUTBOX}.compact", start=True),
    Moment("old transactions were forgotten", f"{OUTBOX}.compact", "after", start=True),
    Moment("a checkpoint was loaded", f"{CHECKPOINT}.Checkpoint.restore", "after", start=True),
]


@dataclass
class Crashes:
    """Two nodes on one chain; the first is the victim."""

    net: Swarm
    victim: DevnetNode
    other: DevnetNode
    checkpoint: int = -1  # the latest that was seen

    def play(self, moments: Sequence[Moment]) -> Iterator[Crash]:
        """Crash after crash, each checked before the next begins. Needs `ready` first."""
        for number, moment in enumerate(moments):
            following = moments[number + 1] if number + 1 < len(moments) else None
            yield self._crash(moment, following)

    def ready(self, first: Moment | None) -> None:
        """Play until the round in which the first crash comes."""
        self.other.start()
        self._start(first, FIRST)
        self.net.begin()
        self.net.play_to(FIRST - 1)
        self._finish(FIRST - 1)

    def _crash(self, moment: Moment, following: Moment | None) -> Crash:
        round_ = self.net.clock.round() + 1
        if moment.start:
            assert self.victim.process is not None
            self.victim.process.kill()
            self._start(moment, -1)
        else:
            if moment.alone:
                self._signal_other(signal.SIGSTOP)
            self.net.skip_to(round_)
        self.net.serve_until(f"{moment.words}: the node ends there", lambda: self._over(round_))
        self._signal_other(signal.SIGCONT)
        assert self.victim.process is not None
        assert self.victim.process.exit_status() == -signal.SIGKILL, f"{moment.words}: never reached\n{self.net.logs()}"
        if moment.start:
            self.net.skip_to(round_)
        crashed = time.monotonic()
        self._start(following, round_ + 1)
        self._finish(round_)
        crash = Crash(moment, round_, time.monotonic() - crashed)
        self._check(round_)
        return crash

    def power_loss(self, cut: Callable[[int], int]) -> int:
        """The machine loses power after a round: of everything written last, only `cut(size)` bytes are on its disk.

        Returns that round, after the next start has gone through it again.
        """
        node, round_ = self.victim, self.net.clock.round()
        assert node.process is not None
        node.process.kill()
        for path in self.written_last(round_):
            os.truncate(path, cut(path.stat().st_size))
        # The outbox has lost transactions, and would watch for a round whether another program sent them.
        node.start("--i-know")
        self._finish(round_)
        return round_

    def written_last(self, round_: int) -> list[Path]:
        """The files that a round's end has written, and two of its batch's blocks."""
        home = self.victim.home
        journals = [home / f"{name}.sqlite-wal" for name in ("outbox", "pins", "ballots")]
        batch = self.net.reader.batch_at(self.net.reader.batch_of(self.victim.address, round_) or 0)
        manifest = self._block(batch.manifest)
        group = self._block(BatchManifest.parse(manifest.read_bytes()).groups[0])
        checkpoint = sorted((home / "checkpoints" / f"round-{round_:08d}").iterdir())
        return [*checkpoint, home / "status.json", home / "rounds.jsonl", *journals, manifest, group]

    def _block(self, digest: bytes) -> Path:
        return self.victim.home / "ipfs" / "blocks" / digest.hex()[:2] / digest.hex()

    def check_after_power_loss(self, round_: int) -> None:
        """The round is whole again, and the next two are published."""
        node, reader = self.victim, self.net.reader
        index = reader.batch_of(node.address, round_)
        assert index is not None
        manifest = reader.batch_at(index).manifest
        groups = BatchManifest.parse(self._block(manifest).read_bytes()).groups
        assert all(block_digest(self._block(digest).read_bytes()) == digest for digest in [manifest, *groups])
        assert [report["round"] for report in node.rounds()].count(round_) == 1
        latest = latest_checkpoint(node.home / "checkpoints", lambda _: None)
        assert latest is not None
        assert latest.round == round_
        self.net.play_to(round_ + 3)
        assert all(reader.batch_of(node.address, round_ + after) is not None for after in (1, 2)), self.net.logs()
        log = (node.home / "node.log").read_text()
        assert f"round-{round_:08d} is passed over" in log
        assert "Traceback" not in log
        self._finish(round_ + 3)

    def _over(self, round_: int) -> bool:
        """Dead, or past the moment."""
        return not self.victim.alive or self.victim.status().get("done_round", -1) >= round_

    def _start(self, moment: Moment | None, round_: int) -> None:
        node = self.victim
        run = ["run", "--home", str(node.home), "--password-file", str(node.home.parent / f"{node.name}.password")]
        if moment is None or (moment.start and round_ >= 0):
            node.start()
            return
        trap = [moment.at, moment.when, str(moment.call), moment.holds, str(round_)]
        node.process = Process(
            node.name, [sys.executable, str(RUNNER), *trap, *run, "--register"], node.home / "node.log"
        )
        node.starts += 1

    def _finish(self, round_: int) -> None:
        """Serve until both are done with the round; neither may end."""

        def done() -> bool:
            assert self.victim.alive, f"the node ended in round {round_}\n{self.net.logs()}"
            return all(node.alive and node.done(round_) for node in (self.victim, self.other))

        self.net.serve_until(f"both nodes are done with round {round_}", done)

    def _signal_other(self, number: int) -> None:
        assert self.other.process is not None
        os.kill(self.other.process.pid, number)

    def _check(self, round_: int) -> None:
        """What must hold after a round in which the node was killed and started again."""
        node, reader = self.victim, self.net.reader
        index = reader.batch_of(node.address, round_)
        assert index is not None, f"nothing was published in round {round_}\n{self.net.logs()}"
        stored = _stored(node, f"submit/{round_}")
        assert reader.batch_at(index).manifest == stored.args[3], "the chain has another batch than the outbox"
        policy = reader.policy_of(node.address, round_ + 1)
        assert policy is not None, f"no policy was committed for round {round_ + 1}"
        assert policy.digest == _stored(node, f"commit/{round_ + 1}").args[2]
        said: list[str] = []
        latest = latest_checkpoint(node.home / "checkpoints", said.append)
        assert latest is not None
        assert not said, said
        assert latest.round == round_ > self.checkpoint, f"the latest checkpoint is of round {latest.round}"
        self.checkpoint = round_
        name = policy.digest.hex()
        committed = PolicyManifest.parse((node.home / OWED / name / name).read_bytes())
        assert latest.state["published"] == committed.under(NO_AUDIT).encode().decode(), "committed is what was saved"
        reports = [report for report in node.rounds() if report["round"] == round_]
        lines = (node.home / "rounds.jsonl").read_text().count(f'{{"round": {round_},')
        assert (len(reports), lines) == (1, 1), f"round {round_} is reported {lines} times"
        assert reports[0]["skipped"] == ""
        assert reports[0]["training"], "the report has no training in it"
        assert reports[0]["training"] == latest.state["report"]["training"]
        for name in ("external_used", "external_missing"):
            assert reports[0][name] == latest.state["report"][name]
        assert reports[0]["external_used"] + reports[0]["external_missing"] == EXTERNAL
        assert "Traceback" not in (node.home / "node.log").read_text()

    def check_all(self) -> None:
        """What must hold of the whole chain at the end, and of the node's health."""
        seen: Counter[tuple[str, str, int]] = Counter()
        for page in pages(self.net.reader, None):
            for event in page.events:
                if event.name in ("BatchSubmitted", "PolicyCommitted"):
                    seen[event.name, str(event.args["node"]), int(event.args["round"])] += 1
        assert set(seen.values()) == {1}, [key for key, count in seen.items() if count > 1]
        nonce = int(self.net.chain.rpc("eth_getTransactionCount", self.victim.address, "pending"), 16)
        assert nonce == _signed(self.victim), "every transaction of the key is an entry of the outbox, and the reverse"
        wait_until("the status is new", lambda: self.victim.status().get("trouble") == "", seconds=SECONDS)
        status = sapo("status", "--home", self.victim.home)
        assert status.returncode == 0, status.stdout + status.stderr


def _stored(node: DevnetNode, key: str) -> Call:
    with sqlite3.connect(f"file:{node.home / 'outbox.sqlite'}?mode=ro", uri=True) as db:
        row = db.execute("SELECT call FROM entry WHERE key = ?", (key,)).fetchone()
    assert row is not None, f"the outbox has no {key}"
    return Call.from_json(row[0])


def _signed(node: DevnetNode) -> int:
    with sqlite3.connect(f"file:{node.home / 'outbox.sqlite'}?mode=ro", uri=True) as db:
        return int(db.execute("SELECT COUNT(*) FROM entry WHERE nonce IS NOT NULL").fetchone()[0])


@contextmanager
def crashes(folder: Path, policy: Path) -> Iterator[Crashes]:
    """Stops everything that it started."""
    with swarm(folder, policy) as net:
        victim, other = (net.add(own_groups=OWN, external_groups=EXTERNAL) for _ in range(2))
        yield Crashes(net, victim, other)
