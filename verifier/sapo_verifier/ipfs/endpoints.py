"""Where a node serves its blocks: multiaddrs, and which network addresses may be contacted.

An endpoint comes from the chain, so a stranger wrote it. It must not make this machine talk to its own network:
addresses that are not public are refused, before and after name resolution, and the connection goes to the very
address that was checked (a second look-up could answer differently: DNS rebinding).
Forms: multiaddr specification, the few below only.
"""

import ipaddress
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass

from sapo_verifier import net
from sapo_verifier.ipfs.errors import EndpointError, PeerTooSlow, PeerUnreachable, PrivateEndpointError
from sapo_verifier.ipfs.public import is_public
from sapo_verifier.net import IPAddress

MAX_ENDPOINT_BYTES = 256
"""Longest endpoint that the contract stores."""

_FORMS = "/ip4|ip6|dns|dns4|dns6/HOST/tcp/PORT/http|https, or /…/tcp/PORT/p2p/PEER for Kubo"
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_PEER_ID = re.compile(r"[A-Za-z0-9]{32,80}")
# What may stand between the port and /p2p/ in an address that only libp2p understands.
_LIBP2P_TRANSPORTS = {("tcp",), ("tcp", "ws"), ("tcp", "tls", "ws"), ("udp", "quic"), ("udp", "quic-v1")}
_MAX_ADDRESSES = 4
_FAMILIES = {"dns": socket.AF_UNSPEC, "dns4": socket.AF_INET, "dns6": socket.AF_INET6}


@dataclass(frozen=True)
class Endpoint:
    """A parsed endpoint. `scheme` is http, https or libp2p; `rest` is what follows the host (libp2p only)."""

    multiaddr: str
    kind: str
    host: str
    port: int
    scheme: str
    allow_private: bool
    rest: str = ""

    @property
    def host_header(self) -> str:
        """`Host` of RFC 9110: without the scheme's own port, IPv6 in brackets."""
        host = f"[{self.host}]" if self.kind == "ip6" else self.host
        return host if self.port == {"http": 80, "https": 443}.get(self.scheme) else f"{host}:{self.port}"

    def addresses(self, timeout: float) -> list[IPAddress]:
        """`find`, from any thread."""
        return net.run(self.find(timeout), timeout)

    async def find(self, timeout: float) -> list[IPAddress]:
        """The checked addresses to connect to, at most four, within `timeout` seconds. For `net.run`.

        Raises EndpointError if the name stands for an address that is refused, PeerUnreachable if it stands for none,
        PeerTooSlow if the name server does not answer in time.
        """
        if self.kind in ("ip4", "ip6"):
            return [check_address(ipaddress.ip_address(self.host), self.multiaddr, self.allow_private)]
        try:
            found = await net.look_up(self.host, self.port, _FAMILIES[self.kind], timeout)
        except net.TooSlow as error:
            raise PeerTooSlow(f"{self.multiaddr}: {error}") from error
        except net.NoConnection as error:
            raise PeerUnreachable(f"{self.multiaddr}: {error}; check the name, or tell the node's operator") from error
        # One refused address refuses the name: a mixed answer is how rebinding starts.
        return [check_address(a, self.multiaddr, self.allow_private) for a in found][:_MAX_ADDRESSES]

    def libp2p_addresses(self, timeout: float) -> list[str]:
        """The endpoint as multiaddrs with the checked addresses in place of the name, for Kubo's swarm/connect."""
        return [f"/ip{a.version}/{a}{self.rest}" for a in self.addresses(timeout)]


def check_address(address: IPAddress, multiaddr: str, allow_private: bool) -> IPAddress:
    """The address itself. Raises PrivateEndpointError if it is not public and private ones are not allowed."""
    if not allow_private and not is_public(address):
        raise PrivateEndpointError(
            f"endpoint {multiaddr!r} leads to {address}, which is no public address, and is refused; "
            "on a network of one's own give --allow-private"
        )
    return address


def parse_endpoint(multiaddr: str, *, allow_private: bool) -> Endpoint:
    """Reads a multiaddr. Raises EndpointError for every form that is not listed, and for refused literal addresses."""

    def bad(reason: str) -> EndpointError:
        return EndpointError(f"endpoint {multiaddr[:300]!r}: {reason}; expected {_FORMS}")

    if len(multiaddr.encode("utf-8", "replace")) > MAX_ENDPOINT_BYTES:
        raise bad(f"longer than {MAX_ENDPOINT_BYTES} bytes")
    parts = multiaddr.split("/")
    if len(parts) < 6 or parts[0] != "" or not multiaddr.isascii():
        raise bad("not a multiaddr with host, port and protocol")
    kind, host, transport, port_text, *tail = parts[1:]
    host = _host(kind, host, bad)
    if not re.fullmatch(r"[1-9][0-9]{0,4}", port_text) or int(port_text) > 65535:
        raise bad(f"{port_text!r} is no port")
    if transport == "tcp" and tail in (["http"], ["https"]):
        scheme, rest = tail[0], ""
    elif len(tail) >= 2 and tail[-2] == "p2p" and (transport, *tail[:-2]) in _LIBP2P_TRANSPORTS:
        if not _PEER_ID.fullmatch(tail[-1]):
            raise bad(f"{tail[-1]!r} is no peer id")
        scheme, rest = "libp2p", "/" + "/".join([transport, port_text, *tail])
    else:
        raise bad(f"{'/'.join([transport, port_text, *tail])!r} is not supported")
    if kind in ("ip4", "ip6"):
        check_address(ipaddress.ip_address(host), multiaddr, allow_private)
    return Endpoint(multiaddr, kind, host, int(port_text), scheme, allow_private, rest)


def _host(kind: str, host: str, bad: Callable[[str], EndpointError]) -> str:
    if kind in ("ip4", "ip6"):
        version = ipaddress.IPv4Address if kind == "ip4" else ipaddress.IPv6Address
        try:
            address = version(host)
        except ValueError as error:
            raise bad(f"{host!r} is no {kind} address") from error
        if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
            raise bad("an address with a zone has no meaning elsewhere")
        return str(address)
    if kind in ("dns", "dns4", "dns6"):
        if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.removesuffix(".").split(".")):
            raise bad(f"{host!r} is no host name")
        return host.lower().removesuffix(".")  # certificates have no final dot
    raise bad(f"{kind!r} is not supported")
