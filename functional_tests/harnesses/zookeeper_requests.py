"""Counts what clients send to ZooKeeper through a proxy."""

from __future__ import annotations

from collections.abc import Callable

from servers.proxy import Proxy

#: What a session sends by itself.
_PING = bytes.fromhex("00000008fffffffe0000000b")


def round_trips(proxy: Proxy, act: Callable[[], object]) -> int:
    """Return how many round trips something takes; what is sent without an answer between is one."""
    trips: set[int] = set()
    proxy.matters = lambda request: request != _PING and bool(trips.add(proxy.replied))
    act()
    proxy.matters = lambda _request: True
    return len(trips)
