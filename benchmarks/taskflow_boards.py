"""``python -m benchmarks.taskflow_boards [STORE ...]``: TaskFlow's boards beside ours, through its own interface.

Both do the same on one server, in turn: posts one by one, the time from a post to the start of its flow in an idle
conductor (TaskFlow's blocking one, and ours), and what an idle conductor asks of the server while 20 jobs are claimed
by others. The logbooks of both are in memory, so that the boards alone are measured.
"""

from __future__ import annotations

import socket
import statistics
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

import redis
from servers.redis_servers import RedisServer
from taskflow import engines, task
from taskflow.conductors import backends as conductors
from taskflow.jobs import backends as boards
from taskflow.patterns import linear_flow
from taskflow.persistence.backends import impl_memory
from taskflow.utils import persistence_utils

from benchmarks.etcd_store import etcd_server
from benchmarks.zookeeper_store import zookeeper_server
from jobboard.taskflow import TaskFlowBoard

ROUNDS, POSTS, PINGS, FOREIGN, IDLE = 3, 200, 20, 20, 4.0

PICKED_UP: list[float] = []
STARTED = threading.Semaphore(0)


class Ping(task.Task):  # type: ignore[misc]
    def execute(self) -> None:
        PICKED_UP.append(time.monotonic())
        STARTED.release()


def ping_flow() -> Any:
    return linear_flow.Flow("ping").add(Ping())


def requests_of_redis(host: str, port: int) -> float:
    with redis.Redis(host, port) as client:
        # This one is a request, too.
        return float(client.info("stats")["total_commands_processed"])


def requests_of_zookeeper(host: str, port: int) -> float:
    with socket.create_connection((host, port)) as line:
        line.sendall(b"mntr")
        text = b"".join(iter(lambda: line.recv(65536), b"")).decode()
    return float(next(row.split()[1] for row in text.splitlines() if row.startswith("zk_packets_received")))


def requests_of_etcd(host: str, port: int) -> float:
    with urllib.request.urlopen(f"http://{host}:{port}/metrics") as reply:
        rows = reply.read().decode().splitlines()
    return sum(float(row.split()[-1]) for row in rows if row.startswith("grpc_server_started_total"))


STORES: dict[str, tuple[Callable[[], Any], Callable[[str, int], float], Callable[[str, int], dict[str, Any]]]] = {
    "redis": (RedisServer, requests_of_redis, lambda host, port: {"host": host, "port": port}),
    "zookeeper": (zookeeper_server, requests_of_zookeeper, lambda host, port: {"hosts": f"{host}:{port}"}),
    "etcd": (etcd_server, requests_of_etcd, lambda host, port: {"host": host, "port": port}),
}


def open_board(driver: str, store: str, conf: dict[str, Any]) -> tuple[Any, Any]:
    name = f"bench-{uuid.uuid4().hex}"
    place = {"namespace": name} if store == "redis" else {"path": f"/{name}"}
    persistence = impl_memory.MemoryBackend()
    board = boards.fetch("bench", {"board": driver, **conf, **place}, persistence=persistence)
    board.connect()
    return board, persistence


def posts(board: Any) -> float:
    begin = time.perf_counter()
    for _ in range(POSTS):
        board.post("no-op")
    return POSTS / (time.perf_counter() - begin)


def claim_some(board: Any) -> None:
    """For long: claims of ours without an expiry would be renewed by this process, which is not their owner's."""
    options = {"expiry": 1000} if isinstance(board, TaskFlowBoard) else {}
    for _ in range(FOREIGN):
        board.claim(board.post("foreign"), "somebody else", **options)


def pick_ups(board: Any, persistence: Any) -> list[float]:
    """Milliseconds."""
    latencies = []
    for index in range(PINGS + 2):
        book, detail = persistence_utils.temporary_flow_detail(persistence)
        engines.save_factory_details(detail, ping_flow, [], {}, backend=persistence)
        # At no fixed distance from any poll.
        time.sleep(0.05 + index % 7 * 0.07)
        begin = time.monotonic()
        board.post("ping", book, details={"flow_uuid": detail.uuid})
        assert STARTED.acquire(timeout=60)
        latencies.append((PICKED_UP[-1] - begin) * 1e3)
    return latencies[2:]


def measure(store: str, uri: str, driver: str, kind: str) -> tuple[float, float, float]:
    """Posts a second, the median pick-up in ms, and requests a second of an idle conductor."""
    _, count_requests, conf_of = STORES[store]
    host, _, port = uri.partition("://")[2].partition("/")[0].partition(":")
    board, persistence = open_board(driver, store, conf_of(host, int(port)))
    rate = posts(board)
    board.close()
    board, persistence = open_board(driver, store, conf_of(host, int(port)))
    claim_some(board)
    conductor = conductors.fetch(kind, "bench", board, persistence=persistence)
    thread = threading.Thread(target=conductor.run, daemon=True)
    thread.start()
    latency = statistics.median(pick_ups(board, persistence))
    time.sleep(1)
    before = count_requests(host, int(port))
    time.sleep(IDLE)
    asked = (count_requests(host, int(port)) - before - 1) / IDLE
    conductor.stop()
    thread.join(30)
    board.close()
    return rate, latency, asked


def _told(values: tuple[float, ...]) -> str:
    return f"{statistics.median(values):8.1f} ({min(values):.1f} to {max(values):.1f})"


def main(stores: list[str]) -> None:
    for store in stores or list(STORES):
        drivers = {"TaskFlow": (store, "blocking"), "ours": (f"jobboard+{store}", "jobboard_blocking")}
        figures: dict[str, list[tuple[float, float, float]]] = {name: [] for name in drivers}
        with STORES[store][0]() as server:
            for _ in range(ROUNDS):
                for name, (driver, kind) in drivers.items():
                    figures[name].append(measure(store, server.uri, driver, kind))
        for name, rounds in figures.items():
            told = [_told(values) for values in zip(*rounds, strict=True)]
            print(f"{store:10} {name:9} posts/s {told[0]}  pick-up ms {told[1]}  idle requests/s {told[2]}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
