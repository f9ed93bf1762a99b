import ipaddress
import socket
import time
from typing import Any

import pytest

from sapo_verifier.ipfs.endpoints import parse_endpoint
from sapo_verifier.ipfs.errors import EndpointError, PeerTooSlow, PeerUnreachable
from sapo_verifier.ipfs.public import V4, V6, is_public

PEER = "12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf"


@pytest.mark.parametrize(
    ("text", "kind", "host", "port", "scheme", "header"),
    [
        ("/ip4/8.8.8.8/tcp/8080/http", "ip4", "8.8.8.8", 8080, "http", "8.8.8.8:8080"),
        ("/ip4/8.8.8.8/tcp/80/http", "ip4", "8.8.8.8", 80, "http", "8.8.8.8"),
        ("/ip6/2606:4700::1111/tcp/443/https", "ip6", "2606:4700::1111", 443, "https", "[2606:4700::1111]"),
        ("/dns/Node.Example.org/tcp/443/https", "dns", "node.example.org", 443, "https", "node.example.org"),
        ("/dns4/node.example.org/tcp/1/http", "dns4", "node.example.org", 1, "http", "node.example.org:1"),
        ("/dns6/node.example.org/tcp/65535/http", "dns6", "node.example.org", 65535, "http", "node.example.org:65535"),
    ],
)
def test_http_forms(text: str, kind: str, host: str, port: int, scheme: str, header: str) -> None:
    endpoint = parse_endpoint(text, allow_private=False)
    assert (endpoint.kind, endpoint.host, endpoint.port, endpoint.scheme) == (kind, host, port, scheme)
    assert endpoint.host_header == header


@pytest.mark.parametrize("tail", [f"tcp/4001/p2p/{PEER}", f"udp/4001/quic-v1/p2p/{PEER}", f"tcp/4001/ws/p2p/{PEER}"])
def test_libp2p_forms_keep_what_follows_the_host(tail: str) -> None:
    endpoint = parse_endpoint(f"/ip4/8.8.8.8/{tail}", allow_private=False)
    assert endpoint.scheme == "libp2p"
    assert endpoint.libp2p_addresses(1.0) == [f"/ip4/8.8.8.8/{tail}"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://8.8.8.8:80",
        "8.8.8.8:80",
        "/ip4/8.8.8.8/tcp/80",
        "/ip4/8.8.8.8/tcp/80/http/",
        "/ip4/8.8.8.8/tcp/80/http/http",
        "/ip4/8.8.8.8/udp/80/http",
        "/ip4/8.8.8.8/tcp/0/http",
        "/ip4/8.8.8.8/tcp/080/http",
        "/ip4/8.8.8.8/tcp/65536/http",
        "/ip4/8.8.8.8/tcp/8٠/http",
        "/ip4/8.8.8.8/tcp/-1/http",
        "/ip4/8.8.8/tcp/80/http",
        "/ip4/08.8.8.8/tcp/80/http",
        "/ip4/134744072/tcp/80/http",
        "/ip4/node.example.org/tcp/80/http",
        "/ip6/8.8.8.8/tcp/80/http",
        "/ip6/fe80::1%eth0/tcp/80/http",
        "/dns//tcp/80/http",
        "/dns/a..b/tcp/80/http",
        "/dns/-a.org/tcp/80/http",
        "/dns/user@host/tcp/80/http",
        "/dns/a b/tcp/80/http",
        "/dns/a\r\nHost: x/tcp/80/http",
        f"/dns/{'a' * 64}.org/tcp/80/http",
        f"/dns/{'a.' * 125}org/tcp/80/http",
        "/dns/ünicode.org/tcp/80/http",
        "/dnsaddr/a.org/tcp/80/http",
        "/unix/tmp/socket/tcp/80/http",
        "/ip4/8.8.8.8/tcp/4001/p2p/short",
        f"/ip4/8.8.8.8/tcp/4001/p2p/{PEER}/p2p-circuit/p2p/{PEER}",
        f"/ip4/8.8.8.8/sctp/4001/p2p/{PEER}",
    ],
)
def test_other_forms_are_refused_in_words(text: str) -> None:
    with pytest.raises(EndpointError, match="expected /ip4"):
        parse_endpoint(text, allow_private=True)


PRIVATE = [
    "0.0.0.0",  # noqa: S104  (only parsed)
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::808:808",
    "::8.8.8.8",
    "2002:7f00:1::1",
    "2002:a00:1::1",
    "fc00::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "192.0.0.9",  # anycast of the Port Control Protocol: reachable, and nobody's node
    "192.88.99.1",
    "2001:20::1",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "4000::1",  # not assigned
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_literals_are_refused_unless_allowed(address: str) -> None:
    text = f"/ip{ipaddress.ip_address(address).version}/{address}/tcp/80/http"
    with pytest.raises(EndpointError, match="--allow-private"):
        parse_endpoint(text, allow_private=False)
    assert parse_endpoint(text, allow_private=True).port == 80


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("network", [*V4[:-1], *V6], ids=str)
def test_a_special_network_is_not_public_from_its_first_to_its_last_address(network: Any) -> None:
    """And beside it there is public internet, unless another special one or the end of all begins there."""
    first, last = network.network_address, network.broadcast_address
    assert not is_public(first)
    assert not is_public(last)
    assert str(network) in ("0.0.0.0/8", "2001::/23") or is_public(first - 1)
    assert is_public(last + 1)


def answer_with(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[Any]:
    calls: list[Any] = []

    def fake(host: str, port: int, family: int, kind: int) -> list[Any]:
        calls.append((host, family))
        return [(socket.AF_INET, kind, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", fake)
    return calls


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"])
def test_names_that_lead_inside_are_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    endpoint = parse_endpoint("/dns4/inside.example.org/tcp/80/http", allow_private=False)
    answer_with(monkeypatch, address)
    with pytest.raises(EndpointError, match=f"leads to {address}|leads to ::ffff"):
        endpoint.addresses(1.0)


def test_one_inside_address_among_public_ones_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = parse_endpoint("/dns/mixed.example.org/tcp/80/http", allow_private=False)
    answer_with(monkeypatch, "8.8.8.8", "127.0.0.1")
    with pytest.raises(EndpointError):
        endpoint.addresses(1.0)


def test_a_name_becomes_its_checked_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = parse_endpoint(f"/dns4/node.example.org/tcp/4001/p2p/{PEER}", allow_private=False)
    calls = answer_with(monkeypatch, *(f"8.8.8.{i}" for i in range(9)))
    assert endpoint.libp2p_addresses(1.0) == [f"/ip4/8.8.8.{i}/tcp/4001/p2p/{PEER}" for i in range(4)]
    assert calls == [("node.example.org", socket.AF_INET)]


def test_a_number_in_place_of_a_name_is_checked_like_a_name() -> None:
    endpoint = parse_endpoint("/dns4/2130706433/tcp/80/http", allow_private=False)  # 127.0.0.1 to the C library
    with pytest.raises((EndpointError, PeerUnreachable)):
        endpoint.addresses(5.0)


def test_a_name_server_that_never_answers_costs_only_the_time_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = parse_endpoint("/dns/slow.example.org/tcp/80/http", allow_private=False)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: time.sleep(1.0) or [])
    start = time.monotonic()
    with pytest.raises(PeerTooSlow, match="not resolved"):
        endpoint.addresses(0.1)
    assert time.monotonic() - start < 0.6


def test_a_name_without_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = parse_endpoint("/dns/nothing.example.org/tcp/80/http", allow_private=False)
    answer_with(monkeypatch)
    with pytest.raises(PeerUnreachable, match="does not resolve"):
        endpoint.addresses(1.0)
