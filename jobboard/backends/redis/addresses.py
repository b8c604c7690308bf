"""From a board's URI and options to the topology of its servers; what is left of the options goes to redis-py."""

from __future__ import annotations

from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.options import tls_checks
from jobboard.backends.redis.connection import Host, Network
from jobboard.backends.redis.options import TLS_OPTIONS, database
from jobboard.backends.redis.topology import Cluster, Sentinel, Standalone, Topology, UnixSocket

_PORT, _SENTINEL_PORT = 6379, 26379

_VERIFIED = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
_UNVERIFIED = {"ssl_cert_reqs": "none", "ssl_check_hostname": False}


def standalone_at(address: Address, options: dict[str, Any]) -> Topology:
    """Return one server: ``redis://``, ``rediss://`` or ``unix://``.

    :raises ValueError: the URI or the options can't be meant so; the other functions say so too.
    """
    if address.scheme == "unix":
        if address.hosts:
            raise ValueError("a Unix socket is unix:///PATH; there is no host")
        if any(option in TLS_OPTIONS for option in options):
            raise ValueError("there is no TLS on a Unix socket")
        return UnixSocket(address.path, _settings_of(address, options))
    if len(address.hosts) > 1:
        raise ValueError("one Redis server is redis://HOST:PORT/DB; for several see redis+sentinel, redis+cluster")
    path = address.path.strip("/")
    if path and "db" in options:
        raise ValueError("the database stands both in the path and in the option db")
    if path:
        options["db"] = database(path)
    network = _network_of(address, options, tls=address.scheme == "rediss")
    return Standalone(network, _hosts_of(address, _PORT)[0])


def sentinel_at(address: Address, options: dict[str, Any]) -> Topology:
    """Return the primary of a service that Sentinels watch."""
    service, _, path = address.path.strip("/").partition("/")
    if not service:
        raise ValueError("a board behind Sentinels is redis+sentinel://HOST:PORT,.../SERVICE/DB; give a SERVICE")
    if path:
        options["db"] = database(path)
    credentials = {
        "username": options.pop("sentinel_username", None),
        "password": options.pop("sentinel_password", None),
    }
    network = _network_of(address, options, tls=options.pop("ssl", False))
    kept = {key: value for key, value in network.settings.items() if key not in {"username", "password", "db"}}
    sentinel_network = Network(network.tls, {**kept, **credentials})
    return Sentinel(network, _hosts_of(address, _SENTINEL_PORT), service, sentinel_network)


def cluster_at(address: Address, options: dict[str, Any], key: str) -> Topology:
    """Return the node of a Cluster that has the slot of a key."""
    if address.path.strip("/"):
        raise ValueError("a Cluster has no databases: redis+cluster://HOST:PORT,HOST:PORT")
    network = _network_of(address, options, tls=options.pop("ssl", False))
    return Cluster(network, _hosts_of(address, _PORT), key)


def _network_of(address: Address, options: dict[str, Any], *, tls: bool) -> Network:
    given = [option for option in options if option in TLS_OPTIONS]
    if given and not tls:
        raise ValueError(f"option {given[0]}: this board's URI is one without TLS")
    if tls:
        # Given explicitly, because redis-py 5 does not check the host's name by default.
        unverified = options.pop("tls_unverified", False)
        options.update(tls_checks(options, _VERIFIED, _UNVERIFIED, unverified=unverified))
    return Network(tls, _settings_of(address, options))


def _settings_of(address: Address, options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of redis-py's connections."""
    return {**options, "username": address.username, "password": address.password, **own_settings(options)}


def own_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of redis-py's connections that are the same for every board."""
    timeout = options["socket_timeout"]
    return {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "protocol": 2,
        "health_check_interval": 0,
    }


def _hosts_of(address: Address, port: int) -> list[Host]:
    """Return the address's hosts with their ports; localhost if there are none."""
    hosts = address.hosts or (("localhost", None),)
    return [(host or "localhost", number or port) for host, number in hosts]
