"""The address of a client, and the network that counts as one."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence


def network_of(address: str) -> str:
    """Return what counts as one peer: an IPv4 address, or the /64 of an IPv6 one, as a host may have many of these.

    :param address: what is no IP address stands for itself.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    # An IPv4 address, as a socket for both writes it. All of them are in one /64.
    mapped = found.ipv4_mapped
    return str(ipaddress.ip_network((found, 64), strict=False) if mapped is None else mapped)


def forwarded_address(values: Sequence[str]) -> str | None:
    """Return the address that the nearest proxy says a request came from, without a port; None if it says none.

    Of all that ``X-Forwarded-For`` has, only the last entry is not the client's to write.

    :param values: those of all headers of that name, in their order.
    """
    last = values[-1].rpartition(",")[2].strip() if values else ""
    host, colon, port = last.rpartition(":")
    if colon and port.isdecimal() and (":" not in host or (host.startswith("[") and host.endswith("]"))):
        last = host
    return last.removeprefix("[").removesuffix("]") or None
