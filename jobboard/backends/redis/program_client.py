"""From a redis-py client that the program has to the same servers: the client itself is neither used nor changed.

A board needs connections of its own, for the reasons in pool.py. What is read of redis-py are the arguments that pools
keep for their connections, and of a Sentinel's pool its manager; tested with redis-py 5.0.1 and 8.1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis import Redis, RedisCluster
from redis.sentinel import SentinelConnectionPool

from jobboard.backends.redis.addresses import own_settings
from jobboard.backends.redis.connection import TCP, TLS, UNIX, Host, Network
from jobboard.backends.redis.topology import Cluster, Sentinel, Standalone, Topology, UnixSocket

_LOGIN = ("username", "password", "credential_provider", "client_name")


def client(value: Any) -> Redis | RedisCluster:
    """Return a client that a board can connect as.

    :raises TypeError: it is none.
    :raises ValueError: it is that of a replica.
    """
    kind = type(value)
    if kind.__module__.startswith("redis.asyncio"):
        raise TypeError("a client of redis.asyncio can't be used; give a redis.Redis with the same settings")
    if not isinstance(value, Redis | RedisCluster):
        raise TypeError(f"must be a redis.Redis or a redis.RedisCluster, not {kind.__module__}.{kind.__qualname__}")
    if isinstance(value, Redis):
        pool = value.connection_pool
        if isinstance(pool, SentinelConnectionPool) and not pool.is_master:
            raise ValueError("it reads from replicas; give the one of master_for()")
        if not issubclass(pool.connection_class, (TCP, UNIX)):
            raise TypeError(f"its connections are {pool.connection_class.__qualname__}s, which a board can't make")
    return value


def topology_of(client: Redis | RedisCluster, key: str, options: dict[str, Any]) -> Topology:
    """Return where a client's server is that has the board with this key.

    :param options: the board's ``socket_timeout``.
    """
    own = own_settings(options)
    if isinstance(client, RedisCluster):
        return _cluster_of(client, own, key)
    pool = client.connection_pool
    given = pool.connection_kwargs
    if issubclass(pool.connection_class, UNIX):
        return UnixSocket(given["path"], _settings_of(given, own))
    network = _network_of(given, own, tls=_is_tls(pool.connection_class))
    if not isinstance(pool, SentinelConnectionPool):
        return Standalone(network, _host_of(given))
    pools = [sentinel.connection_pool for sentinel in pool.sentinel_manager.sentinels]
    sentinels = _network_of(pools[0].connection_kwargs, own, tls=_is_tls(pools[0].connection_class))
    hosts = [_host_of(one.connection_kwargs) for one in pools]
    return Sentinel(network, hosts, pool.service_name, sentinels)


def _cluster_of(client: Any, own: Mapping[str, Any], key: str) -> Cluster:
    given = client.get_connection_kwargs()
    tls = bool(given.get("ssl")) or _is_tls(given.get("connection_class"))
    nodes = [(str(node.host), int(node.port)) for node in client.get_nodes()]
    return Cluster(_network_of(given, own, tls=tls), nodes, key)


def _is_tls(kind: type | None) -> bool:
    return kind is not None and issubclass(kind, TLS)


def _host_of(given: Mapping[str, Any]) -> Host:
    return str(given.get("host", "localhost")), int(given.get("port", 6379))


def _network_of(given: Mapping[str, Any], own: Mapping[str, Any], *, tls: bool) -> Network:
    settings = _settings_of(given, own)
    if tls:
        settings |= {name: value for name, value in given.items() if name.startswith("ssl_")}
    return Network(tls, settings)


def _settings_of(given: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the board's connections: how to log in, and the database, are the client's."""
    login = {name: given[name] for name in _LOGIN if given.get(name) is not None}
    return {**login, "db": int(given.get("db") or 0), **own}
