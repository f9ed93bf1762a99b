"""What asks: `once` over a connection of its own to checked addresses, `Client` over connections that stay open.

aiohttp is imported when either is first used: most commands never need it.
"""

import weakref
from collections.abc import Sequence

from sapo_verifier.net import loop
from sapo_verifier.net.messages import Answer, Request
from sapo_verifier.net.names import IPAddress


async def once(request: Request, addresses: Sequence[IPAddress], host: str) -> Answer:
    """One exchange with the first of `addresses` that takes the connection; no proxy, and no name is looked up.

    `host`: what `request.url` names, and what the certificate must be for. For `run`. Raises NetError.
    """
    from sapo_verifier.net import exchange

    return await exchange.once(request, addresses, host)


class Client:
    """Exchanges with one server over connections that stay open. Every method may be called from any thread.

    A proxy of the environment is used where it names one for the server.
    """

    def __init__(self) -> None:
        from sapo_verifier.net.exchange import Connections

        self._connections = Connections()
        loop.call_at_end(self._connections.close)
        # For those who forget `close`; at the end of the process the loop does it.
        weakref.finalize(self, loop.call_now, self._connections.close).atexit = False

    def exchange(self, request: Request) -> Answer:
        """Asks; a connection that the server closed in between is made again. Raises NetError."""
        return loop.run(self._connections.exchange(request), request.seconds)

    def close(self) -> None:
        """Closes the connections. The next exchange would open new ones."""
        if self._connections.are_open:
            loop.run(self._connections.close(), 1.0)
