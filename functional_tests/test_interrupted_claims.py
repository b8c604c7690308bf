"""What a signal's handler raises anywhere in a claim keeps no job, and no other thread, from the next claims."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.zookeeper_harness import ZooKeeperHarness
from servers.etcd_servers import EtcdServer
from servers.zookeeper_servers import ZooKeeperServer

from jobboard.testing import Harness
from jobboard.testing.interrupting import interrupted_after

LONG = 600.0

#: The modules in which a claim holds something that other threads wait for, or leave to it.
MODULES: dict[str, tuple[Callable[[], Any], Callable[[str], Harness]]] = {
    "zookeeper/change_log.py": (ZooKeeperServer, ZooKeeperHarness),
    "zookeeper/claim_selection.py": (ZooKeeperServer, ZooKeeperHarness),
    "etcd/leases.py": (EtcdServer, EtcdHarness),
}


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def harness(module: str) -> Iterator[Harness]:
    make_server, make_harness = MODULES[module]
    with make_server() as server, make_harness(server.uri) as harness:
        yield harness


def test_an_interrupted_claim_delays_no_other(harness: Harness, module: str) -> None:
    board = harness.board()
    other = harness.board(board.name)
    left: list[int] = []

    def claim_all() -> None:
        board.claim_next("bob", limit=10, expiry=LONG)
        left.append(board.stats().unclaimed)

    step = 1
    other.post("resize")
    # With a lease of its own each time.
    while interrupted_after(step, partial(board.claim_next, "alice", expiry=LONG + step), module):
        claiming = threading.Thread(target=claim_all, daemon=True)
        claiming.start()
        claiming.join(30)
        assert left == [0] * step, f"after the interrupt at step {step}"
        other.post("resize")
        step += 1
    assert step > 10
