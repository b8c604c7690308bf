"""The Redis backends: they differ in how the server is found, and in nothing else."""

from __future__ import annotations

from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.base import Capabilities
from jobboard.backends.options import tls_checks, truth
from jobboard.backends.redis.claiming import Claiming
from jobboard.backends.redis.keys import key_of
from jobboard.backends.redis.operating import Operating
from jobboard.backends.redis.options import OPTIONS, TLS_OPTIONS, database
from jobboard.backends.redis.places import Host, Local, Network, Place, Sharded, Single, Watched
from jobboard.backends.redis.posting import Posting
from jobboard.backends.redis.reading import Reading
from jobboard.backends.redis.scheduling import Scheduling
from jobboard.backends.redis.watching import Watching

_PORT, _SENTINEL_PORT = 6379, 26379
_SOCKET_TIMEOUT = 5.0

_VERIFIED = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
_UNVERIFIED = {"ssl_cert_reqs": "none", "ssl_check_hostname": False}


class RedisBackend(Posting, Claiming, Reading, Operating, Scheduling, Watching):
    """``redis://HOST:PORT/DB``, ``rediss://`` with TLS, ``unix:///PATH?db=DB``.

    Every primitive is one script and one round trip. Claims are judged by the server's clock.
    """

    scheme = "redis"
    #: At 15 to 20 microseconds a job on a quiet machine, a script of this many stays under 5 ms on a busy one too.
    capabilities = Capabilities(
        processes=True, durable=True, expiry="time", clock="store", largest_batch=100, largest_step=100
    )
    options = {**OPTIONS, "db": database}

    def _place_of(self, address: Address, options: dict[str, Any]) -> Place:
        if address.scheme == "unix":
            if address.hosts:
                raise ValueError("a Unix socket is unix:///PATH; there is no host")
            if any(option in TLS_OPTIONS for option in options):
                raise ValueError("there is no TLS on a Unix socket")
            return Local(address.path, self._settings_of(address, options))
        if len(address.hosts) > 1:
            raise ValueError("one Redis server is redis://HOST:PORT/DB; for several see redis+sentinel, redis+cluster")
        path = address.path.strip("/")
        if path and "db" in options:
            raise ValueError("the database stands both in the path and in the option db")
        if path:
            options["db"] = database(path)
        network = self._network_of(address, options, tls=address.scheme == "rediss")
        return Single(network, hosts_of(address, _PORT)[0])

    def _network_of(self, address: Address, options: dict[str, Any], *, tls: bool) -> Network:
        given = [option for option in options if option in TLS_OPTIONS]
        if given and not tls:
            raise ValueError(f"option {given[0]}: this board's URI is one without TLS")
        if tls:
            # Said aloud: redis-py 5 does not check the host's name by itself.
            unverified = options.pop("tls_unverified", False)
            options.update(tls_checks(options, _VERIFIED, _UNVERIFIED, unverified=unverified))
        return Network(tls, self._settings_of(address, options))

    def _settings_of(self, address: Address, options: dict[str, Any]) -> dict[str, Any]:
        """Return what redis-py's connections are made with; everything else has been taken out of the options."""
        self.patience = options.setdefault("socket_timeout", _SOCKET_TIMEOUT)
        return {
            **options,
            "username": address.username,
            "password": address.password,
            "socket_connect_timeout": self.patience,
            "protocol": 2,
            "health_check_interval": 0,
        }


class RedisSentinelBackend(RedisBackend):
    """``redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB``: the primary that the Sentinels name."""

    scheme = "redis+sentinel"
    options = {
        **OPTIONS, "db": database, "ssl": truth, "sentinel_username": str, "sentinel_password": str,
    }  # fmt: skip

    def _place_of(self, address: Address, options: dict[str, Any]) -> Place:
        service, _, path = address.path.strip("/").partition("/")
        if not service:
            raise ValueError("a board behind Sentinels is redis+sentinel://HOST:PORT,.../SERVICE/DB; give a SERVICE")
        if path:
            options["db"] = database(path)
        credentials = {
            "username": options.pop("sentinel_username", None),
            "password": options.pop("sentinel_password", None),
        }
        network = self._network_of(address, options, tls=options.pop("ssl", False))
        kept = {key: value for key, value in network.settings.items() if key not in {"username", "password", "db"}}
        return Watched(network, hosts_of(address, _SENTINEL_PORT), service, {**kept, **credentials})


class RedisClusterBackend(RedisBackend):
    """``redis+cluster://HOST:PORT,HOST:PORT``: a board lives in one slot, on one node."""

    scheme = "redis+cluster"
    options = {**OPTIONS, "ssl": truth}

    def _place_of(self, address: Address, options: dict[str, Any]) -> Place:
        if address.path.strip("/"):
            raise ValueError("a Cluster has no databases: redis+cluster://HOST:PORT,HOST:PORT")
        network = self._network_of(address, options, tls=options.pop("ssl", False))
        return Sharded(network, hosts_of(address, _PORT), key_of(self.board))


def hosts_of(address: Address, port: int) -> list[Host]:
    """Return the address's hosts with their ports; localhost if there are none."""
    hosts = address.hosts or (("localhost", None),)
    return [(host or "localhost", number or port) for host, number in hosts]
