"""Who counts as one peer."""

from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final

# Of IPv6 one subscriber has a whole network of this length.
_IPV6_PREFIX: Final = 64


def network_of(peer: str) -> str:
    """What a peer's limits hold for: its address, or the network that it can choose addresses from."""
    try:
        address = ip_address(peer.strip("[]"))
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), _IPV6_PREFIX), strict=False))
