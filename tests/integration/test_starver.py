"""The attacker that refuses one voter, before a real daemon: one request for a manifest gets nothing, all else does."""

import threading
from pathlib import Path

import pytest

from sapo_devnet.adversaries.starving import Server
from sapo_devnet.testkit.ipfs_daemon import ipfs_daemon
from sapo_verifier.cid import cid
from sapo_verifier.ipfs import BlockStore, BlockUnavailable, GatewayReader


def test_only_who_asks_first_is_refused_and_only_the_manifest(tmp_path: Path) -> None:
    with ipfs_daemon(tmp_path) as daemon:
        store = BlockStore(daemon.api, allow_private=True)
        manifest, group = store.put(b"a manifest"), store.put(b"a group")
        store.close()
        server = Server(daemon.gateway_url.removeprefix("http://"))
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        with server, GatewayReader(allow_private=True) as voter:
            server.refused.add(cid(manifest))
            peers = [f"/ip4/127.0.0.1/tcp/{server.server_port}/http"]
            assert voter.get(group, peers=peers) == b"a group"
            with pytest.raises(BlockUnavailable, match="does not have"):
                voter.get(manifest, peers=peers)
            assert voter.get(manifest, peers=peers) == b"a manifest", "as everybody else"
            server.shutdown()
