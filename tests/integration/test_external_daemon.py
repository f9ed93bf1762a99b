"""A real node whose IPFS daemon is an external one: it is waited for, never replaced, and given what it has lost."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sapo_client.state.settings import FILE_NAME
from sapo_devnet.nodes import DevnetNode
from sapo_devnet.testkit.alive import wait_until
from sapo_devnet.testkit.relay import Relay
from sapo_devnet.testkit.swarm import Swarm, swarm
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier.ipfs import BlockStore

WAITING = "waiting for the IPFS daemon"


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Swarm]:
    with swarm(tmp_path, tiny_folder(tmp_path / "policy")) as made:
        yield made


def change(node: DevnetNode, **ipfs: str) -> None:
    """Settings of its section."""
    file = node.home / FILE_NAME
    text = file.read_text()
    for key, value in ipfs.items():
        text = re.sub(rf'^{key} = ".*"$', f'{key} = "{value}"', text, flags=re.MULTILINE)
    file.write_text(text)


def url_of(multiaddr: str) -> str:
    return "http://" + ":".join(multiaddr.split("/")[2:5:2])


def test_an_external_daemon_is_waited_for_and_gets_back_what_it_lost(net: Swarm) -> None:
    """One life: away at the start, there, away in the middle of a round, there again, and empty."""
    node = net.add()
    with Relay(url_of(node.api)) as relay:
        change(node, api=f"/ip4/127.0.0.1/tcp/{relay.url.rsplit(':', 1)[1]}/http")
        relay.cut()
        node.start()
        wait_until("it waits", lambda: node.status().get("phase") == WAITING, seconds=60)
        assert "does not answer; is it running?" in node.status()["trouble"]
        relay.mend()
        net.begin()
        net.play_to(1)

        relay.cut()
        net.serve_until("it waits again", lambda: node.status().get("phase") == WAITING)
        relay.mend()
        net.serve_until("round 1 is played", lambda: node.done(1))
        assert node.status()["trouble"] == ""

        blocks = [path for path in (node.home / "ipfs" / "blocks").glob("*/*") if path.suffix != ".pin"]
        for path in blocks:
            path.unlink()
        net.play_to(3)
    log = (node.home / "node.log").read_text()
    assert "embedded" not in log
    assert log.count("does not answer; is it running?") == 2, "once each time"
    assert log.count("that is over, after") == 2
    assert "blocks that this node owes" in log
    assert "broken" not in log
    with BlockStore(node.api, allow_private=True) as store:
        for round_ in (0, 1, 2):
            index = net.reader.batch_of(node.address, round_)
            if index is None:
                assert round_ == 0, "committed for in time"
                continue
            batch = net.reader.batch_at(index)
            assert store.has(batch.manifest)
            assert store.has(batch.policy)
