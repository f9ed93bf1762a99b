"""Ports of this machine that a home takes for itself, so that two homes on one machine do not meet."""

import random
import socket

# Below the ports that the system gives to outgoing connections: one that is free now is so when the node starts.
_FIRST, _LAST = 20_000, 32_000
_TRIES = 200


def free_ports(count: int) -> list[int]:
    """Different ports, each free on loopback, drawn at random: other homes' may be free, too, while those stand still.

    Raises OSError where none are to be had.
    """
    found: list[int] = []
    for port in random.sample(range(_FIRST, _LAST), _TRIES):
        if why_taken("127.0.0.1", port) is None:
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports of {_TRIES} between {_FIRST} and {_LAST}")


def own_addresses() -> list[str]:
    """Multiaddrs for a home's embedded daemon: its RPC, and its gateway."""
    return [f"/ip4/127.0.0.1/tcp/{port}/http" for port in free_ports(2)]


def why_taken(host: str, port: int) -> OSError | None:
    """Why nothing new can listen there; None: it can."""
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        return error
    return None
