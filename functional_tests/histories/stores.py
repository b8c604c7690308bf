"""The stores of histories: their servers, the lines to them, and what can be done to both."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from servers.base import HOST, RunningServer
from servers.etcd_servers import EtcdCluster, EtcdServer
from servers.galera_servers import GaleraCluster
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer
from servers.proxy import Proxy
from servers.redis_servers import RedisCluster, RedisSentinel, RedisServer
from servers.small_bodies import SmallBodies
from servers.zookeeper_servers import ZooKeeperEnsemble, ZooKeeperServer

from jobboard import JobBoard
from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.backends.memory.registry import store_of
from jobboard.backends.memory.store import steady_now
from jobboard.testing import eventually
from jobboard.testing.faults import LossyBackend

from . import footprint
from .conducting import EXPIRIES
from .faults import of_file, of_lines, of_servers, one_at_a_time, row_of_a_server
from .history import Rules
from .nemesis import Disturbance


@dataclass(frozen=True)
class Line:
    """A way to a store that one process has to itself."""

    uri: str
    proxy: Proxy


@dataclass
class Site:
    """A running store.

    :param uri: how the workers reach it, through proxies where there are any.
    :param calm_uri: how it is reached past them.
    :param holds: counts what it holds for a board.
    :param disturbances: what a nemesis may do to it and to the lines, by the kind of fault.
    :param clocks: whether a client's wall clock may be stepped; where the host's clock judges, as its documents say, it
        is the store's own.
    :param lines: the line that a process has to itself, by the beginning of its name, where there is one.
    :param patience: the options of who waits for an answer longer than claims last.
    :param lock: keeps the row of a job locked, given its uuid, where a store has rows.
    :param make_board: makes what threads work on, for a store that is in this process.
    :param hasten: lets so much time pass for these boards that every claim ends and all that has ended is forgotten,
        where the store's clock can be told to.
    """

    uri: str
    calm_uri: str
    holds: Callable[[str], dict[str, int]]
    options: dict[str, Any] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    disturbances: dict[str, Disturbance] = field(default_factory=dict)
    clocks: bool = True
    lines: dict[str, Line] = field(default_factory=dict)
    patience: dict[str, Any] = field(default_factory=dict)
    lock: Callable[[str], contextlib.AbstractContextManager[Any]] | None = None
    make_board: Callable[[str], JobBoard] | None = None
    hasten: Callable[..., None] = lambda *_: None


#: What a lost reply or request can be of.
_PRIMITIVES = (
    "post", "cancel", "claim", "claim_next", "extend", "consume", "abandon", "trash", "checkpoint", "release",
    "restore", "purge",
)  # fmt: skip


@contextlib.contextmanager
def _memory(_: Path) -> Iterator[Site]:
    backends: list[LossyBackend] = []

    def make_board(name: str) -> JobBoard:
        backends.append(LossyBackend(MemoryBackend(name, Address("memory"))))
        return JobBoard(name, backends[-1], retention=1.0)

    def lose(fault: Literal["reply", "request", "refused"]) -> Disturbance:
        def disturb(_seconds: float, pick: float, _over: threading.Event) -> None:
            chance = random.Random(pick)
            for primitive in _PRIMITIVES:
                chance.choice(backends).lose(primitive, fault, times=chance.randrange(1, 4))

        return disturb

    faults = {"lose replies": lose("reply"), "lose requests": lose("request"), "refuse requests": lose("refused")}
    yield Site(
        "memory://", "memory://", lambda board: footprint.of_memory("", board), disturbances=faults, clocks=False,
        make_board=make_board, hasten=_turn_clocks,
    )  # fmt: skip


def _turn_clocks(*boards: str) -> None:
    for board in boards:
        store = store_of("", board)
        ahead = store.clock() - steady_now() + 3600
        store.clock = lambda ahead=ahead: steady_now() + ahead


@contextlib.contextmanager
def _sqlite(folder: Path) -> Iterator[Site]:
    path = folder / "jobs.db"
    uri = f"sqlite:///{path}"
    yield Site(uri, uri, lambda board: footprint.of_sqlite(path, board), disturbances=of_file(path), clocks=False)


@contextlib.contextmanager
def _one_server(
    server: Any, holds: Callable[[str], dict[str, int]], options: dict[str, Any], patience: dict[str, Any],
    rules: Rules | None = None, refuse_above: int | None = None,
) -> Iterator[Site]:  # fmt: skip
    """A server behind a proxy for most, and one for each conductor."""
    with server, contextlib.ExitStack() as stack:
        target = (HOST, server.port)
        if refuse_above is not None:
            target = (HOST, stack.enter_context(SmallBodies(target, refuse_above)).port)
        proxy, *own = [stack.enter_context(Proxy(target)) for _ in range(1 + len(EXPIRIES))]

        def uri_by(way: Proxy) -> str:
            return str(server.uri.replace(f":{server.port}", f":{way.port}"))

        lines = {label: Line(uri_by(each), each) for label, each in zip(EXPIRIES, own, strict=True)}
        yield Site(
            uri_by(proxy), server.uri, holds, options, rules or Rules(),
            of_lines([proxy]) | of_servers(lambda _: server), lines=lines, patience=patience,
        )  # fmt: skip


@contextlib.contextmanager
def _sql_server(server: Any) -> Iterator[Site]:
    holds = partial(footprint.of_sql_server, server)
    with _one_server(server, holds, {"socket_timeout": 3.0}, {"socket_timeout": _PATIENT}) as site:
        site.lock = partial(row_of_a_server, server)
        yield site


#: Seconds that a conductor waits for an answer: longer than replies are held.
_PATIENT = 25.0
#: How many bytes a proxy before etcd lets through in one request.
_SMALL = 200_000
#: The workers of a Galera cluster, in the order of the nodes at which they begin.
_WORKERS = ("w0", "g0", "a0")
_DURABLE = {"appendonly": "yes", "appendfsync": "always"}
_QUICK_REDIS = {"socket_timeout": 2.0}


def _redis(_: Path) -> contextlib.AbstractContextManager[Site]:
    server = RedisServer(_DURABLE | {"proto-max-bulk-len": "1mb"})
    holds = lambda board: footprint.of_redis([server.client()], board)  # noqa: E731
    return _one_server(server, holds, _QUICK_REDIS, {"socket_timeout": _PATIENT})


@contextlib.contextmanager
def _redis_cluster(_: Path) -> Iterator[Site]:
    with RedisCluster(_DURABLE) as cluster:

        def holds(board: str) -> dict[str, int]:
            return footprint.of_redis([node.client() for node in cluster.nodes], board)

        faults = of_servers(lambda pick: cluster.nodes[int(pick * len(cluster.nodes))])
        yield Site(cluster.uri, cluster.uri, holds, _QUICK_REDIS, disturbances=faults)


@contextlib.contextmanager
def _redis_sentinel(_: Path) -> Iterator[Site]:
    with RedisSentinel(_DURABLE) as sentinel:

        def holds(board: str) -> dict[str, int]:
            return footprint.of_redis([sentinel.primary.client()], board)

        def failover(_seconds: float, _pick: float, over: threading.Event) -> None:
            sentinel.kill_primary()
            # What was acknowledged just before may be gone for good, and just after, two may have served.
            over.wait(1.0)

        options = {**_QUICK_REDIS, "durability": "wait:1:500"}
        yield Site(sentinel.uri, sentinel.uri, holds, options, disturbances={"failover": failover})


_QUICK_ZOOKEEPER = {"session_timeout": 6.0, "request_timeout": 2.0}
_SESSIONS = Rules(session=6.0, late=None)


def _zookeeper(_: Path) -> contextlib.AbstractContextManager[Site]:
    server = ZooKeeperServer()
    holds = lambda board: footprint.of_zookeeper(server.uri, board)  # noqa: E731
    return _one_server(server, holds, _QUICK_ZOOKEEPER, {"request_timeout": _PATIENT}, _SESSIONS)


@contextlib.contextmanager
def _zookeeper_ensemble(_: Path) -> Iterator[Site]:
    with ZooKeeperEnsemble() as ensemble, contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(Proxy((HOST, node.port))) for node in ensemble.nodes]

        def choose(pick: float) -> RunningServer:
            return ensemble.leader() if pick < 0.5 else ensemble.nodes[int(pick * 6) - 3]

        yield Site(
            "zookeeper://" + ",".join(f"{HOST}:{proxy.port}" for proxy in proxies), ensemble.uri,
            lambda board: footprint.of_zookeeper(ensemble.uri, board), _QUICK_ZOOKEEPER, _SESSIONS,
            of_lines(proxies) | one_at_a_time(of_servers(choose), ensemble.until_whole),
        )  # fmt: skip


_QUICK_ETCD = {"timeout": 2.0}
#: Clients judge by the clocks of others, of which they may not know the last two seconds.
_BY_CLIENTS = Rules(late=2.05)


def _etcd(_: Path) -> contextlib.AbstractContextManager[Site]:
    server = EtcdServer()
    holds = partial(footprint.of_etcd, server)
    return _one_server(server, holds, _QUICK_ETCD, {"timeout": _PATIENT}, _BY_CLIENTS, refuse_above=_SMALL)


@contextlib.contextmanager
def _etcd_cluster(_: Path) -> Iterator[Site]:
    with EtcdCluster() as cluster, contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(Proxy((HOST, member.port))) for member in cluster.members]

        def choose(pick: float) -> RunningServer:
            return cluster.leader() if pick < 0.5 else cluster.members[int(pick * 6) - 3]

        def until_whole() -> None:
            eventually(lambda: all(member.answers() for member in cluster.members), within=60, every=0.1)

        yield Site(
            "etcd://" + ",".join(f"{HOST}:{proxy.port}" for proxy in proxies) + "/tests", cluster.uri,
            lambda board: footprint.of_etcd(cluster.members[0], board), _QUICK_ETCD, _BY_CLIENTS,
            of_lines(proxies) | one_at_a_time(of_servers(choose), until_whole),
        )  # fmt: skip


def _postgresql(_: Path) -> contextlib.AbstractContextManager[Site]:
    return _sql_server(PostgresqlServer())


def _mariadb(_: Path) -> contextlib.AbstractContextManager[Site]:
    return _sql_server(MariadbServer({"max-allowed-packet": "256K"}))


@contextlib.contextmanager
def _galera(_: Path) -> Iterator[Site]:
    """Processes begin at different nodes, so that all nodes are written to."""
    with GaleraCluster() as cluster, contextlib.ExitStack() as stack:
        nodes = cluster.nodes

        def new_proxy(number: int) -> Proxy:
            return stack.enter_context(Proxy((HOST, nodes[number].port)))

        proxies = [new_proxy(number) for number in range(len(nodes))]

        def line(number: int, own: Proxy) -> Line:
            others = proxies[number + 1 :] + proxies[:number]
            return Line(f"mysql://root@{','.join(f'{HOST}:{proxy.port}' for proxy in (own, *others))}/jobs", own)

        shared = {label: line(number, proxies[number]) for number, label in enumerate(_WORKERS)}
        own = {label: line(number, new_proxy(number)) for number, label in enumerate(EXPIRIES)}
        yield Site(
            shared["w0"].uri, cluster.uri, partial(footprint.of_sql_server, nodes[0]), {"socket_timeout": 3.0},
            disturbances=of_lines(proxies)
            | one_at_a_time(of_servers(lambda pick: nodes[int(pick * len(nodes))]), cluster.until_whole),
            lines=shared | own, patience={"socket_timeout": _PATIENT},
        )  # fmt: skip


#: Every kind of store for histories: what starts it, given a folder of its own, and stops it at the end.
STORES: dict[str, Callable[[Path], contextlib.AbstractContextManager[Site]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "redis": _redis,
    "redis-sentinel": _redis_sentinel,
    "redis-cluster": _redis_cluster,
    "zookeeper": _zookeeper,
    "zookeeper-ensemble": _zookeeper_ensemble,
    "etcd": _etcd,
    "etcd-cluster": _etcd_cluster,
    "postgresql": _postgresql,
    "mariadb": _mariadb,
    "galera": _galera,
}
