"""What a signal's handler raises anywhere in a claim keeps no job, and no other thread, from the next claims."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.sql_harness import MysqlHarness
from harnesses.zookeeper_harness import ZooKeeperHarness
from servers.etcd_servers import EtcdServer
from servers.mariadb_servers import MariadbServer
from servers.zookeeper_servers import ZooKeeperServer

from jobboard.testing import Harness, eventually
from jobboard.testing.interrupting import interrupted_after

LONG = 600.0


class OutOfTime(Exception):
    """As a program raises from the handler of its alarm clock."""


#: The modules in which a claim holds something that other threads wait for, or leave to it.
MODULES: dict[str, tuple[Callable[[], Any], Callable[[str], Harness]]] = {
    "zookeeper/change_log.py": (ZooKeeperServer, ZooKeeperHarness),
    "zookeeper/claim_selection.py": (ZooKeeperServer, ZooKeeperHarness),
    "etcd/leases.py": (EtcdServer, EtcdHarness),
    "mysql/connection.py": (MariadbServer, MysqlHarness),
}


@pytest.fixture(scope="module", params=MODULES)
def module(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def harness(module: str) -> Iterator[Harness]:
    make_server, make_harness = MODULES[module]
    with make_server() as server, make_harness(server.uri) as harness:
        yield harness


@pytest.mark.parametrize("error", [KeyboardInterrupt, OutOfTime])
def test_an_interrupted_claim_delays_no_other(harness: Harness, module: str, error: type[BaseException]) -> None:
    board = harness.board()
    other = harness.board(board.name)
    ended: list[int] = []

    def has_claimed_all() -> bool:
        board.claim_next("bob", limit=10, expiry=LONG)
        return board.stats().unclaimed == 0

    def claim_all() -> None:
        # A server may need a moment to learn that the interrupted claim is given up.
        eventually(has_claimed_all)
        ended.append(step)

    step = 1
    other.post("resize")
    # With a lease of its own each time.
    while interrupted_after(step, partial(board.claim_next, "alice", expiry=LONG + step), module, error):
        claiming = threading.Thread(target=claim_all, daemon=True)
        claiming.start()
        claiming.join(60)
        assert ended[-1:] == [step], f"after the interrupt at step {step}"
        other.post("resize")
        step += 1
    assert step > 10
