"""A board of layout 1 on etcd and ZooKeeper is brought to ours in place: only its number changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_server
from harnesses.zookeeper_harness import ZooKeeperHarness
from servers.etcd_servers import EtcdServer
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import BoardUnavailable, backend, fetch
from jobboard.backends.layout import LAYOUT, UPGRADING
from jobboard.testing import Harness

etcd = a_server(EtcdServer)
zookeeper = a_server(ZooKeeperServer)

OURS, LATER = str(LAYOUT), str(LAYOUT + 1)


@pytest.fixture(params=["etcd", "zookeeper"])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    make = EtcdHarness if request.param == "etcd" else ZooKeeperHarness
    with make(request.getfixturevalue(request.param).uri) as harness:
        yield harness


@pytest.mark.parametrize("number", ["1", "2", UPGRADING.decode()])
def test_an_earlier_layout_is_refused_and_upgraded_once(harness: Harness, number: str) -> None:
    board = harness.board()
    job = board.post("resize", details={"page": 1})
    assert harness.write_layout(board, number) == OURS
    board.close()
    with pytest.raises(BoardUnavailable, match=rf"layout {number}, .* layout {OURS}; .*`jobboard upgrade`"):
        board.connect()
    for found in (number, OURS):
        migration = fetch(board.name, harness.uri()).migrate()
        assert (migration.found, migration.now) == (found, OURS)
    board.connect()
    assert board.migrate().found == OURS
    [claimed] = board.claim_next("alice")
    assert (claimed.uuid, claimed.details) == (job.uuid, {"page": 1})
    board.consume(claimed, "alice")


def test_a_later_layout_is_not_upgraded(harness: Harness) -> None:
    board = harness.board()
    harness.write_layout(board, LATER)
    with pytest.raises(BoardUnavailable, match=f"layout {LATER}, .* layout {OURS}"):
        fetch(board.name, harness.uri()).migrate()
    assert harness.write_layout(board, OURS) == LATER


def test_a_board_that_does_not_exist_gets_our_layout(harness: Harness) -> None:
    name = harness.fresh_name()
    migration = fetch(name, harness.uri()).migrate()
    assert (migration.found, migration.now) == (None, OURS)
    with backend(name, harness.uri()) as board:
        assert board.post("resize").uuid == board.claim_next("alice")[0].uuid
