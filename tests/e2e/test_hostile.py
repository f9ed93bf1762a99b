"""A registered node that lies, among honest ones: they say what is wrong, learn nothing from it, and go on."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from sapo_client.batches.publish import Batch, make_batch
from sapo_client.policy.policy import Policy
from sapo_client.transactions.outbox import Outbox
from sapo_devnet.testkit.ipfs_daemon import ipfs_daemon
from sapo_devnet.testkit.swarm import Swarm, sapo, swarm
from sapo_verifier.chain.contracts import Call
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.ipfs import BlockStore
from sapo_verifier.networks import ETHER
from sapo_verifier.tasks import TaskWorker

SLOTS = 2
LIE_AT = 11  # a completion: slot 1, number 3
NOTHING = block_digest(b"a block that nobody has")


@dataclass
class Hostile:
    """A node that the test plays by hand, with the client's own parts."""

    net: Swarm
    outbox: Outbox
    store: BlockStore
    policy: Policy
    worker: TaskWorker

    def register(self, endpoint: str) -> None:
        self.net.chain.fund(self.outbox.address)
        self._send("register", Call("nodes", "register", (self.outbox.address, endpoint)), value=ETHER)

    def commit(self, round_: int) -> None:
        published = self.policy.publish()
        self.store.put(published.manifest)
        call = Call("rounds", "commitPolicy", (self.outbox.address, round_, published.digest, SLOTS))
        self._send(f"commit/{round_}", call)

    def generate(self, round_: int) -> Batch:
        """An honest batch, its blocks put where everybody finds them."""
        deployment, address = self.net.deployment, self.outbox.address
        beacon, digest = self._beacon(round_), self.policy.publish().digest
        dealt = BatchFacts.dealt(
            deployment.chain_id, deployment.contracts.rounds, round_, address, beacon, digest, SLOTS
        )
        batch = make_batch(deployment.spec, dealt, self.policy, self.worker)
        for block in batch.blocks.values():
            self.store.put(block)
        return batch

    def submit(self, round_: int, manifest: bytes, root: bytes, claim: int) -> int:
        """The batch's index."""
        call = Call("rounds", "submit", (self.outbox.address, round_, self._beacon(round_), manifest, root, claim))
        self._send(f"submit/{round_}", call)
        index = self.net.reader.batch_of(self.outbox.address, round_)
        assert index is not None
        return index

    def _beacon(self, round_: int) -> bytes:
        self.net.serve_until("the beacon is captured", lambda: self.net.reader.beacon(round_) is not None)
        beacon = self.net.reader.beacon(round_)
        assert beacon is not None
        return beacon

    def _send(self, key: str, call: Call, value: int = 0) -> None:
        self.outbox.put(key, call, value=value)
        self.net.deliver(self.outbox)
        assert self.outbox.state(key).status == "mined", self.outbox.state(key)


@dataclass
class Story:
    """What happened: the indices of the three dishonest batches."""

    net: Swarm
    hostile: str
    lie: int
    copy: int
    absent: int


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, random_policy: Path) -> Iterator[Story]:
    """Two honest nodes and a hostile one play four rounds."""
    folder = tmp_path_factory.mktemp("hostile")
    with swarm(folder, random_policy) as net, ipfs_daemon(folder) as daemon, TaskWorker() as worker:
        honest = [net.add(own_groups=SLOTS, external_groups=4) for _ in range(2)]
        for node in honest:
            node.start()
        outbox = Outbox(folder / "hostile.sqlite", net.reader, Account.create())
        with BlockStore(daemon.api, allow_private=True) as store:
            policy = Policy.load(random_policy, net.deployment.spec.bases[0])
            hostile = Hostile(net, outbox, store, policy, worker)
            hostile.register(daemon.gateway)
            net.begin()
            hostile.commit(1)
            hostile.commit(2)

            # A reward that was not earned, in a batch that is honest in all else.
            net.play_to(1)
            batch = hostile.generate(1)
            made = batch.facts
            lie = hostile.submit(1, made.manifest, made.root, made.claim ^ (1 << LIE_AT))
            hostile.commit(3)

            # Another node's work, word for word.
            net.play_to(2)
            net.serve_until("node0 has submitted", lambda: net.reader.batch_of(honest[0].address, 2) is not None)
            victim = net.reader.batch_at(net.reader.batch_of(honest[0].address, 2) or 0)
            copy = hostile.submit(2, victim.manifest, victim.root, victim.claim)

            # A batch that nobody can have.
            net.play_to(3)
            absent = hostile.submit(3, NOTHING, NOTHING, 1)
            net.play_to(5)
        yield Story(net, outbox.address, lie, copy, absent)
        outbox.close()


def test_honest_nodes_name_the_failing_checks_and_go_on(story: Story) -> None:
    for node in story.net.nodes:
        assert node.alive
        assert node.starts == 1
        assert all(story.net.reader.batch_of(node.address, round_) is not None for round_ in range(1, 5))
        assert sapo("status", "--home", node.home).returncode == 0
        sentences = [sentence for report in node.rounds() for sentence in report["failures"]]
        assert len(sentences) == len(set(sentences)) == 3, "each is found once, and kept in mind"
        lie, copy, absent = sentences
        assert lie.startswith(f"batch {story.lie} of {story.hostile}: reward fail: ")
        assert copy.startswith(f"batch {story.copy} of {story.hostile}: binding fail: ")
        assert absent.startswith(f"batch {story.absent} of {story.hostile}: available void: ")
        log = (node.home / "node.log").read_text()
        assert all(f"not trained on: {sentence}" in log for sentence in sentences)
        assert "Traceback" not in log


def test_the_copied_nodes_own_batch_still_counts(story: Story) -> None:
    """The victim of a copy is not punished."""
    victim, other = story.net.nodes
    index = story.net.reader.batch_of(victim.address, 2)
    assert not any(f"batch {index} " in sentence for report in other.rounds() for sentence in report["failures"])
    for report in other.rounds():
        if report["round"] in (2, 3, 4):
            assert report["external_checked"] >= SLOTS
            assert report["external_failed"] == SLOTS


def test_nobody_trains_on_what_failed(story: Story) -> None:
    bad = {story.lie, story.copy, story.absent}
    for node in story.net.nodes:
        states = list((node.home / "checkpoints").glob("*/state.json"))
        assert states
        for state in states:
            used = json.dumps(json.loads(state.read_text()))
            assert not any(f"[{index}, " in used for index in bad)


def test_an_auditor_finds_the_lie_and_names_its_place(story: Story) -> None:
    done = verify(story, story.lie, "--strict")
    assert done.returncode == 1
    assert "reward 1 is claimed, 0 is earned at slot 1, completion 3" in done.stdout
    assert "verdict: the check reward failed" in done.stdout
    found = json.loads(verify(story, story.lie, "--json").stdout)["outcomes"][-1]
    assert (found["check"], found["status"], found["slot"], found["k"]) == ("reward", "fail", 1, 3)
    assert set(found["evidence"]) == {"text", "answer"}


def test_an_auditor_finds_the_copy_and_the_empty_promise(story: Story) -> None:
    copy = verify(story, story.copy, "--strict", "--gateway", story.net.nodes[0].gateway)
    assert copy.returncode == 1
    assert "verdict: the check binding failed" in copy.stdout
    absent = verify(story, story.absent, "--strict")
    assert absent.returncode == 1
    assert "verdict: nothing can be said" in absent.stdout
    assert f"0x{NOTHING.hex()}" in absent.stdout


def verify(story: Story, *words: Any) -> "subprocess.CompletedProcess[str]":
    net = story.net
    command = [sys.executable, "-m", "sapo_verifier", "batch", *map(str, words), "--rpc", net.chain.url]
    command += [
        "--deployment",
        str(net.folder / "deployment.json"),
        "--base-folder",
        str(net.policy),
        "--allow-private",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done
