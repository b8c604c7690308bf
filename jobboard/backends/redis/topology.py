"""Where the server is that has the board: one host, the primary that Sentinels name, or a slot's node of a Cluster."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from redis import exceptions
from redis.crc import key_slot

from jobboard.backends.redis.connection import Connection, Host, Network, connect_within, unix_connection
from jobboard.backends.timelimit import seconds_left

T = TypeVar("T")


class Topology(abc.ABC):
    """Finds the server that has the board, and makes connections to it."""

    @abc.abstractmethod
    def find(self) -> Connection:
        """Return a new connection to the server that has the board now, not connected yet; raises redis-py's errors."""

    def finders(self) -> list[Callable[[], Connection]]:
        """Return for each server that has boards what makes a connection to it; raises redis-py's errors."""
        return [self.find]

    def forget(self) -> None:  # noqa: B027, most topologies never change
        """Search again at the next ``find``: the server is gone, or is the wrong one now."""

    def moved(self, host: str, port: int) -> None:  # noqa: B027
        """Take over where a redirection says that the board is now."""

    @abc.abstractmethod
    def __str__(self) -> str:
        """Return how messages name the server, without credentials."""


class Standalone(Topology):
    """One host and port."""

    def __init__(self, network: Network, host: Host) -> None:
        self._network = network
        self._host = host

    def find(self) -> Connection:
        return self._network.connection(self._host)

    def __str__(self) -> str:
        return host_text(self._host)


class UnixSocket(Topology):
    """A Unix socket."""

    def __init__(self, path: str, settings: dict[str, Any]) -> None:
        self._path = path
        self._settings = settings

    def find(self) -> Connection:
        return unix_connection(self._path, self._settings)

    def __str__(self) -> str:
        return self._path


class SeedHosts:
    """Several hosts that can all tell where the server is; the one that answered last is asked first."""

    def __init__(self, network: Network, hosts: Sequence[Host]) -> None:
        self._network = network
        self._hosts = list(hosts)

    def ask(self, command: tuple[str, ...], parse: Callable[[Any, Host], T], also: Sequence[Host] = ()) -> T:
        """Return what ``parse`` makes of the first answer that it can read; raises what the last host raised.

        A silent host gets no more than its share of the time that is left.

        :param also: hosts to ask when all others fail.
        """
        fault: Exception = exceptions.ConnectionError("no hosts")
        hosts = [*self._hosts, *(host for host in also if host not in self._hosts)]
        for number, host in enumerate(hosts):
            connection = self._network.connection(host)
            try:
                # One share is for the server that they name.
                connect_within(connection, seconds_left(self._network.timeout) / (len(hosts) - number + 1))
                connection.send_command(*command)
                answer = parse(connection.read_response(), host)
            except (exceptions.RedisError, OSError) as error:
                fault = error
                continue
            finally:
                connection.disconnect()
            if host in self._hosts:
                self._hosts = [host, *(other for other in self._hosts if other != host)]
            return answer
        raise fault


class Sentinel(Topology):
    """The primary that Sentinels name; they are asked for every new connection, because it may have changed."""

    def __init__(self, network: Network, sentinels: list[Host], service: str, sentinel_network: Network) -> None:
        self._network = network
        self._service = service
        self._sentinels = sentinels
        self._seeds = SeedHosts(sentinel_network, sentinels)

    def find(self) -> Connection:
        return self._network.connection(self._seeds.ask(("SENTINEL", "MASTERS"), self._primary_of))

    def _primary_of(self, answer: Any, _: Host) -> Host:
        for facts in (dict(zip(part[::2], part[1::2], strict=True)) for part in answer):
            if facts[b"name"].decode() == self._service:
                flags = set(facts[b"flags"].split(b","))
                if b"master" in flags and flags.isdisjoint({b"s_down", b"o_down"}):
                    return facts[b"ip"].decode(), int(facts[b"port"])
        raise exceptions.ConnectionError(f"no Sentinel knows a primary for {self._service!r}")

    def __str__(self) -> str:
        return f"{self._service!r} of the Sentinels {', '.join(map(host_text, self._sentinels))}"


class Cluster(Topology):
    """The node of a Cluster that has the board's slot."""

    def __init__(self, network: Network, hosts: list[Host], key: str) -> None:
        self._network = network
        self._hosts = hosts
        self._seeds = SeedHosts(network, hosts)
        #: Nodes that the answers named, for when all hosts of the URI are gone.
        self._further_hosts: list[Host] = []
        self._slot = key_slot(key.encode())
        self._node: Host | None = None

    def find(self) -> Connection:
        node = self._node
        if node is None:
            node = self._node = self._find_node()
        return self._network.connection(node)

    def finders(self) -> list[Callable[[], Connection]]:
        owners = self._seeds.ask(("CLUSTER", "SLOTS"), _owners_of, self._further_hosts)
        return [partial(self._network.connection, node) for node in dict.fromkeys(node for _, _, node in owners)]

    def forget(self) -> None:
        self._node = None

    def moved(self, host: str, port: int) -> None:
        self._node = (host, port) if host else None

    def _find_node(self) -> Host:
        return self._seeds.ask(("CLUSTER", "SLOTS"), self._node_of, self._further_hosts)

    def _node_of(self, answer: Any, asked: Host) -> Host:
        """Return the node that has the slot."""
        owners = _owners_of(answer, asked)
        self._further_hosts = list(dict.fromkeys(node for _, _, node in owners if node not in self._hosts))
        for first, last, node in owners:
            if first <= self._slot <= last:
                return node
        raise exceptions.ClusterDownError(f"no node has the slot {self._slot}")

    def __str__(self) -> str:
        node = f", slot {self._slot} at {host_text(self._node)}" if self._node else ""
        return f"the Cluster {', '.join(map(host_text, self._hosts))}{node}"


def _owners_of(ranges: Any, asked: Host) -> list[tuple[int, int, Host]]:
    """Return the first and the last slot of each range, and its node."""
    # A node that does not know its own address gives an empty one: it is the node that was asked.
    return [
        (first, last, (host.decode() if host else asked[0], int(port))) for first, last, (host, port, *_), *_ in ranges
    ]


def host_text(host: Host) -> str:
    return f"{host[0]}:{host[1]}"
