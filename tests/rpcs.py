"""What the tests of several RPCs share: two proxies before one chain, a reader over both, and a clock to move."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sapo_devnet.testkit.faulty_rpc import FaultyRpc, faulty_rpc
from sapo_devnet.testkit.networks import Network
from sapo_verifier.chain import failover
from sapo_verifier.chain.reader import ChainReader


def well(method: str, params: Any) -> None:
    """No fault."""


class World:
    """`asked` holds the methods that each proxy was asked for, by its URL; those of a batch one by one."""

    def __init__(self, network: Network, proxies: list[FaultyRpc]) -> None:
        self.network = network
        self.first, self.second = proxies
        self.now = 1000.0
        self.asked: dict[str, list[str]] = {}
        for proxy in proxies:
            self.mend(proxy)
        self.reader = self.over(*(proxy.url for proxy in proxies))

    def over(self, *urls: str, timeout: float = 0.4) -> ChainReader:
        reader = self.network.reader()
        reader.w3 = failover.connect(urls, reader._anchor, timeout, chance=lambda: 1.0, clock=lambda: self.now)
        return reader

    def mend(self, proxy: FaultyRpc) -> None:
        methods = self.asked.setdefault(proxy.url, [])

        def answer(body: bytes) -> tuple[int, bytes]:
            request = json.loads(body)
            methods.extend(call["method"] for call in (request if isinstance(request, list) else [request]))
            return FaultyRpc.answer(proxy, body)

        proxy.fault, proxy.answer = well, answer  # type: ignore[method-assign]

    def always(self, proxy: FaultyRpc, status: int, body: bytes) -> None:
        proxy.answer = lambda _: (status, body)  # type: ignore[method-assign]

    def lag(self, proxy: FaultyRpc, blocks: int) -> None:
        """Its height is so much lower than the chain's; nothing else is."""

        def answer(body: bytes) -> tuple[int, bytes]:
            status, data = FaultyRpc.answer(proxy, body)
            request, said = json.loads(body), json.loads(data)
            batch = isinstance(request, list)
            methods = {call["id"]: call["method"] for call in (request if batch else [request])}
            for each in said if batch else [said]:
                if methods[each["id"]] == "eth_blockNumber":
                    each["result"] = hex(int(each["result"], 16) - blocks)
            return status, json.dumps(said).encode()

        proxy.answer = answer  # type: ignore[method-assign]

    def sends(self, proxy: FaultyRpc) -> int:
        return self.asked[proxy.url].count("eth_sendRawTransaction")


@contextmanager
def two_rpcs(network: Network) -> Iterator[World]:
    """Both are well."""
    with faulty_rpc(network.chain.url, well) as first, faulty_rpc(network.chain.url, well) as second:
        yield World(network, [first, second])
