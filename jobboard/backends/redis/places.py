"""Where the server is that has the board: one host, the primary that Sentinels name, or a slot's node of a Cluster."""

from __future__ import annotations

import abc
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from redis import connection as library
from redis import exceptions
from redis.crc import key_slot

from jobboard.backends.timelimit import seconds_left

T = TypeVar("T")
Host = tuple[str, int]


class Connection(Protocol):
    """What is used of redis-py's connections, which have no types of their own."""

    socket_timeout: float | None
    socket_connect_timeout: float | None
    _sock: socket.socket | None

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


def limit_socket(connection: Connection, seconds: float) -> None:
    """Let everything that is sent and read from now on end within so many seconds each.

    The library sets the time of a connection when it is made; a request of a call that has less must not take it all.
    """
    if connection._sock is not None:
        connection._sock.settimeout(seconds)


def connect_within(connection: Connection, seconds: float) -> None:
    """Connect, each step within so many seconds, or leave nothing open."""
    connection.socket_timeout = connection.socket_connect_timeout = seconds
    try:
        connection.connect()
    except BaseException:
        connection.disconnect()
        raise


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
        #: For how many seconds a step of a connection may take at most.
        self.patience: float = settings["socket_timeout"]

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


class Asked:
    """Several hosts of which any one can tell the way: asked one after the other, first the one that told it last."""

    def __init__(self, network: Network, hosts: Sequence[Host]) -> None:
        self._network = network
        self._hosts = list(hosts)

    def ask(self, command: tuple[str, ...], understand: Callable[[Any, Host], T], also: Sequence[Host] = ()) -> T:
        """Return what the first answer says that can be understood; raises what the last one raised.

        One that keeps silent gets no more than its share of the time that is left.
        """
        fault: Exception = exceptions.ConnectionError("no hosts")
        hosts = [*self._hosts, *(host for host in also if host not in self._hosts)]
        for number, host in enumerate(hosts):
            connection = self._network.connection(host)
            try:
                # One share is for the server that they tell of.
                connect_within(connection, seconds_left(self._network.patience) / (len(hosts) - number + 1))
                connection.send_command(*command)
                answer = understand(connection.read_response(), host)
            except (exceptions.RedisError, OSError) as error:
                fault = error
                continue
            finally:
                connection.disconnect()
            if host in self._hosts:
                self._hosts = [host, *(other for other in self._hosts if other != host)]
            return answer
        raise fault


class Watched(Place):
    """The primary that Sentinels name; asked for every new connection, since it may have changed."""

    def __init__(self, network: Network, sentinels: list[Host], service: str, settings: dict[str, Any]) -> None:
        self._network = network
        self._service = service
        self._sentinels = sentinels
        self._asked = Asked(Network(network.tls, settings), sentinels)

    def find(self) -> Connection:
        return self._network.connection(self._asked.ask(("SENTINEL", "MASTERS"), self._primary_of))

    def _primary_of(self, answer: Any, _: Host) -> Host:
        for facts in (dict(zip(part[::2], part[1::2], strict=True)) for part in answer):
            if facts[b"name"].decode() == self._service:
                flags = set(facts[b"flags"].split(b","))
                if b"master" in flags and flags.isdisjoint({b"s_down", b"o_down"}):
                    return facts[b"ip"].decode(), int(facts[b"port"])
        raise exceptions.ConnectionError(f"no Sentinel knows a primary for {self._service!r}")

    def __str__(self) -> str:
        return f"{self._service!r} of the Sentinels {', '.join(map(text_of, self._sentinels))}"


class Sharded(Place):
    """The node of a Cluster that has the board's slot."""

    def __init__(self, network: Network, hosts: list[Host], key: str) -> None:
        self._network = network
        self._hosts = hosts
        self._asked = Asked(network, hosts)
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
        return self._asked.ask(("CLUSTER", "SLOTS"), self._node_of, self._told)

    def _node_of(self, answer: Any, asked: Host) -> Host:
        """Return who has the slot."""
        owners = _owners_of(answer, asked)
        self._told = list(dict.fromkeys(node for _, _, node in owners if node not in self._hosts))
        for first, last, node in owners:
            if first <= self._slot <= last:
                return node
        raise exceptions.ClusterDownError(f"no node has the slot {self._slot}")

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
