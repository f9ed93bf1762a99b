"""Which network addresses are of the public internet: all but those of IANA's special-purpose registries (RFC 6890 and
what updates it), multicast, and what is not assigned. By a table, so that every version of Python says the same.
"""

import ipaddress

from sapo_verifier.net import IPAddress

V4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by a provider's customers
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # IETF protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # relays of 6to4, deprecated
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarking
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/3",  # multicast, reserved, broadcast
        ),
    )
)
UNICAST = ipaddress.IPv6Network("2000::/3")  # all else of IPv6 is special or not assigned
V6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # IETF protocol assignments, with Teredo and ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, deprecated
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # what a name stands for where there is IPv6 alone


def is_public(address: IPAddress) -> bool:
    """Whether an address is of the public internet; of IPv4 inside IPv6 (mapped, NAT64) whether that is."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in V4)
    if address.scope_id is not None:
        return False
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address in NAT64:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address in UNICAST and not any(address in network for network in V6)
