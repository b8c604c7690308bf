"""Where the server is that has the board: one host, the primary that Sentinels name, or a slot's node of a Cluster."""

from __future__ import annotations

import abc
from typing import Any, Protocol

from redis import connection as library
from redis import exceptions
from redis.crc import key_slot
from redis.sentinel import Sentinel

Host = tuple[str, int]


class Connection(Protocol):
    """What is used of redis-py's connections, which have no types of their own."""

    socket_timeout: float | None
    socket_connect_timeout: float | None

    def connect(self) -> None: ...

    def disconnect(self) -> None: ...

    def pack_command(self, *parts: object) -> list[bytes]: ...

    def send_packed_command(self, command: list[bytes], check_health: bool = True) -> None: ...

    def send_command(self, *parts: object, check_health: bool = True) -> None: ...

    def read_response(self, *, disconnect_on_error: bool = True) -> Any: ...


#: The library's classes, seen without their types.
_TCP: Any = library.Connection
_TLS: Any = library.SSLConnection
_UNIX: Any = library.UnixDomainSocketConnection
_SENTINEL: Any = Sentinel


class Place(abc.ABC):
    """Knows the way to the server; makes connections that are not connected yet."""

    @abc.abstractmethod
    def find(self) -> Connection:
        """Return a new connection to where the board is now; raises what redis-py raises."""

    def forget(self) -> None:  # noqa: B027, most places are always the same
        """Look anew at the next ``find``: the server was lost, or is not the right one any more."""

    def moved(self, host: str, port: int) -> None:  # noqa: B027
        """Learn from a redirection where the board is now."""

    @abc.abstractmethod
    def __str__(self) -> str:
        """Return how messages call it, without credentials."""


class Network:
    """Makes connections to any host, with the same credentials and TLS options."""

    def __init__(self, tls: bool, settings: dict[str, Any]) -> None:
        self._kind = _TLS if tls else _TCP
        self.settings = settings
        self.tls = tls

    def connection(self, host: Host) -> Connection:
        made: Connection = self._kind(host=host[0], port=host[1], **self.settings)
        return made


class Single(Place):
    """One host and port."""

    def __init__(self, network: Network, host: Host) -> None:
        self._network = network
        self._host = host

    def find(self) -> Connection:
        return self._network.connection(self._host)

    def __str__(self) -> str:
        return text_of(self._host)


class Local(Place):
    """A Unix socket."""

    def __init__(self, path: str, settings: dict[str, Any]) -> None:
        self._path = path
        self._settings = settings

    def find(self) -> Connection:
        made: Connection = _UNIX(path=self._path, **self._settings)
        return made

    def __str__(self) -> str:
        return self._path


class Watched(Place):
    """The primary that Sentinels name; asked for every new connection, since it may have changed."""

    def __init__(self, network: Network, sentinels: list[Host], service: str, settings: dict[str, Any]) -> None:
        self._network = network
        self._service = service
        self._sentinels = sentinels
        self._settings = {**settings, "ssl": network.tls}

    def find(self) -> Connection:
        # Asked by clients of its own: threads that connect at the same time must not close each other's.
        asked = _SENTINEL(self._sentinels, sentinel_kwargs=self._settings)
        try:
            host, port = asked.discover_master(self._service)
        finally:
            for client in asked.sentinels:
                client.close()
        return self._network.connection((host, int(port)))

    def __str__(self) -> str:
        return f"{self._service!r} of the Sentinels {', '.join(map(text_of, self._sentinels))}"


class Sharded(Place):
    """The node of a Cluster that has the board's slot."""

    def __init__(self, network: Network, hosts: list[Host], key: str) -> None:
        self._network = network
        self._hosts = hosts
        #: Hosts that others have told of, for when all those of the URI are gone.
        self._told: list[Host] = []
        self._slot = key_slot(key.encode())
        self._node: Host | None = None

    def find(self) -> Connection:
        node = self._node
        if node is None:
            node = self._node = self._ask()
        return self._network.connection(node)

    def forget(self) -> None:
        self._node = None

    def moved(self, host: str, port: int) -> None:
        self._node = (host, port) if host else None

    def _ask(self) -> Host:
        """Ask one host after the other who has the slot."""
        fault: Exception = exceptions.ConnectionError("no hosts")
        for host in [*self._hosts, *self._told]:
            connection = self._network.connection(host)
            try:
                connection.connect()
                connection.send_command("CLUSTER", "SLOTS")
                owners = _owners_of(connection.read_response(), host)
            except (exceptions.RedisError, OSError) as error:
                fault = error
                continue
            finally:
                connection.disconnect()
            self._told = list(dict.fromkeys(node for _, _, node in owners if node not in self._hosts))
            for first, last, node in owners:
                if first <= self._slot <= last:
                    return node
            fault = exceptions.ClusterDownError(f"no node has the slot {self._slot}")
        raise fault

    def __str__(self) -> str:
        node = f", slot {self._slot} at {text_of(self._node)}" if self._node else ""
        return f"the Cluster {', '.join(map(text_of, self._hosts))}{node}"


def _owners_of(ranges: Any, asked: Host) -> list[tuple[int, int, Host]]:
    """Return the first and the last slot of each range, and its node."""
    # A node that does not know its own address says so by an empty one: it is the one that was asked.
    return [
        (first, last, (host.decode() if host else asked[0], int(port))) for first, last, (host, port, *_), *_ in ranges
    ]


def text_of(host: Host) -> str:
    return f"{host[0]}:{host[1]}"
