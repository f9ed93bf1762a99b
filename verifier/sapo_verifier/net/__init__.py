"""HTTP to servers that may be hostile or broken, with everything bounded: time in all, bytes, threads.

Blocks come from strangers' gateways and the chain from somebody's RPC; both are asked through this package. `run` and
`Client` are synchronous and may be used from any thread; one event loop in a thread of its own does the work. Nothing
here follows a redirect, opens what is compressed, or believes a length.
"""

from sapo_verifier.net.client import Client, once
from sapo_verifier.net.errors import Compressed, HeadersTooLong, Malformed, NetError, NoConnection, TooLarge, TooSlow
from sapo_verifier.net.loop import abort_all, run
from sapo_verifier.net.messages import Answer, Request
from sapo_verifier.net.names import IPAddress, look_up

__all__ = [
    "Answer",
    "Client",
    "Compressed",
    "HeadersTooLong",
    "IPAddress",
    "Malformed",
    "NetError",
    "NoConnection",
    "Request",
    "TooLarge",
    "TooSlow",
    "abort_all",
    "look_up",
    "once",
    "run",
]
