"""A claim costs the same beside thousands of BLOCKED jobs, and beside a thousand lanes.

Counted on the line between a client and its server, where ZooKeeper and etcd have no measure of their own work. The
suites of Redis and SQL measure that of their servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_proxy
from harnesses.zookeeper_harness import ZooKeeperHarness
from servers.etcd_servers import EtcdServer
from servers.proxy import Proxy
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import JobBoard, Posting
from jobboard.testing.contract.case import LONG

pytestmark = pytest.mark.in_turn(2)

CLAIMS = 20
#: The names that claims ask for: one, and any.
WANTED: list[list[str] | None] = [["resize"], None]
#: As many as one read of a store's queue may see at once, and more.
CLAIMABLE = 100


def zookeeper_requests_in(data: bytes) -> int:
    """Count the requests that a client sends, but for its pings."""
    count = 0
    while len(data) >= 12:
        length, kind = int.from_bytes(data[:4]), int.from_bytes(data[8:12])
        count += kind != 11
        data = data[4 + length :]
    return count


def etcd_requests_in(data: bytes) -> int:
    """Count the requests that read or write keys, and leave out those that keep leases alive."""
    return data.count(b"POST /v3/kv/")


class Store(NamedTuple):
    server: Any
    harness: Any
    requests_in: Callable[[bytes], int]


STORES = {
    "etcd": Store(EtcdServer, EtcdHarness, etcd_requests_in),
    "zookeeper": Store(ZooKeeperServer, ZooKeeperHarness, zookeeper_requests_in),
}


class Cost(NamedTuple):
    """What claims take: requests, and bytes in both directions."""

    requests: int
    bytes: int


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest) -> Store:
    return STORES[request.param]


@pytest.fixture(scope="module")
def server(store: Store) -> Iterator[Any]:
    with store.server() as server:
        yield server


proxy = a_proxy()


@pytest.fixture
def boards(store: Store, server: Any, proxy: Proxy) -> Iterator[Callable[..., JobBoard]]:
    """Return a function that connects to a board, past the proxy or through it."""
    behind = server.uri.replace(f":{server.port}", f":{proxy.port}")
    with store.harness(server.uri) as past, store.harness(behind) as through:
        yield lambda name=None, is_counted=False: (through if is_counted else past).board(name)


def cost_of_claims(store: Store, proxy: Proxy, board: JobBoard, names: list[str] | None) -> Cost:
    requests = sent = 0

    def count(data: bytes) -> bool:
        nonlocal requests, sent
        requests += store.requests_in(data)
        sent += len(data)
        return True

    before, proxy.matters = proxy.replied, count
    claimed = [job for _ in range(CLAIMS) for job in board.claim_next("alice", names, expiry=LONG)]
    cost = Cost(requests, sent + proxy.replied - before)
    assert [job.name for job in claimed] == ["resize"] * CLAIMS
    assert cost.requests >= CLAIMS
    return cost


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("lanes", "count"), [(1, 5_000), (1_000, 1_000)], ids=["one long lane", "many lanes"])
def test_a_claim_costs_the_same_beside_lanes(
    store: Store, proxy: Proxy, boards: Callable[..., JobBoard], lanes: int, count: int
) -> None:
    empty, plain, beside = boards(), boards(), boards()
    beside.limits.set(lane="tenant:*", running=1)
    for first in range(0, count, 1000):
        postings = [Posting("crop", lane=f"tenant:{number % lanes}") for number in range(first, first + 1000)]
        beside.post_many(postings)
    stats = beside.stats()
    assert (stats.unclaimed, stats.blocked) == (lanes, count - lanes)
    plain.post_many([Posting("crop") for _ in range(lanes)])
    costs = list[list[Cost]]()
    for board in (empty, plain, beside):
        board.post_many([Posting("resize", priority="high") for _ in range(CLAIMABLE)])
        client = boards(board.name, is_counted=True)
        # Once for what is done once, such as the first listing.
        for names in WANTED:
            client.claim_next("alice", names, expiry=LONG)
        # A client whose server has been silent for seconds connects anew, which costs more once.
        rounds = [[cost_of_claims(store, proxy, client, names) for names in WANTED] for _ in range(2)]
        costs.append([Cost(*map(min, *pair)) for pair in zip(*rounds, strict=True)])
    of_empty, of_plain, of_beside = costs
    # A claim of any name sees other claimable jobs too, of which there are as many without lanes.
    for few, many in ((of_empty[0], of_beside[0]), *zip(of_plain, of_beside, strict=True)):
        assert many.requests == few.requests, costs
        assert many.bytes <= 1.2 * few.bytes, costs
