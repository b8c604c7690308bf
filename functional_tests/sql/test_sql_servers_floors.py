"""Claims that begin at their floors: what appears below is claimed all the same, and dead entries are not passed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from harnesses.sql_site import Site

import jobboard
from jobboard import Job, JobBoard, JobPriority, Posting
from jobboard.backends.sql import floors
from jobboard.backends.sql.postgresql import claiming
from jobboard.backends.sql.postgresql.fast_path import asked_by
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)

Clients = tuple[JobBoard, JobBoard]

#: Seconds until a claim of the lives beside a snapshot is over.
_EXPIRY = 2.0


@pytest.fixture(autouse=True)
def only_floors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let claims begin at their floors at once and always, with next to no margin."""
    monkeypatch.setattr(floors, "LEAST_CLAIMS", 0)
    monkeypatch.setattr(floors, "MARGIN", 0.0)
    monkeypatch.setattr(floors, "PAUSE", 1e9)
    monkeypatch.setattr(floors, "MAX_PAUSE", 1e9)


@pytest.fixture
def clients(site: Site) -> Iterator[Clients]:
    """Two clients of one board."""
    name, uri = f"floors-{uuid.uuid4()}", site.server.uri
    with jobboard.backend(name, uri) as one, jobboard.backend(name, uri) as other:
        yield one, other


@pytest.fixture(params=[None, ("resize", "scan")], ids=["any", "names"])
def names(request: pytest.FixtureRequest) -> Any:
    return request.param


def _restored(board: JobBoard, job: Job) -> None:
    board.trash(job, "other")
    board.restore(job)


COMING_BACK: dict[str, Callable[[JobBoard, Job], object]] = {
    "abandoned": lambda board, job: board.abandon(job, "other"),
    "released": lambda board, job: board.release(job, reason="by hand"),
    "restored": _restored,
}


@pytest.mark.parametrize("come_back", COMING_BACK.values(), ids=COMING_BACK)
def test_what_another_client_gives_back_is_claimed_next(
    clients: Clients, names: Any, come_back: Callable[[JobBoard, Job], object]
) -> None:
    one, other = clients
    one.post_many([Posting("resize") for _ in range(4)])
    [first] = other.claim_next("other")
    assert [job.uuid for job in one.claim_next("one", names)] != [first.uuid]
    come_back(other, first)
    found = [job.uuid for job in one.claim_next("one", names, limit=5)]
    assert first.uuid in found
    assert len(found) == 3


def test_a_job_that_comes_back_goes_before_the_later_ones_of_its_priority(clients: Clients, names: Any) -> None:
    one, other = clients
    one.post_many([Posting("resize") for _ in range(4)])
    [first] = other.claim_next("other")
    one.claim_next("one", names)
    other.abandon(first, "other")
    assert [job.uuid for job in one.claim_next("one", names)] == [first.uuid]


def test_a_claim_that_is_over_is_claimed_by_who_expires_it(clients: Clients, names: Any) -> None:
    one, other = clients
    one.post_many([Posting("resize") for _ in range(2)])
    [first] = other.claim_next("other", expiry=0.2)
    one.claim_next("one", names)
    assert one.claim_next("one", names) == []
    assert eventually(lambda: one.claim_next("one", names))[0].uuid == first.uuid


def test_better_priorities_go_first_and_worse_ones_are_found(clients: Clients, names: Any) -> None:
    one, other = clients
    one.post_many([Posting("resize"), Posting("scan"), Posting("scan", priority=JobPriority.LOW)])
    one.claim_next("one", names)
    other.post("resize", priority=JobPriority.VERY_HIGH)
    claimed = [job.priority for job in one.claim_next("one", names, limit=5)]
    assert claimed == [JobPriority.VERY_HIGH, JobPriority.NORMAL, JobPriority.LOW]


def test_what_gets_another_priority_is_claimed_in_its_order(clients: Clients, names: Any) -> None:
    one, other = clients
    old = one.post("resize", priority=JobPriority.LOW)
    one.post_many([Posting("resize") for _ in range(3)])
    one.claim_next("one", names)
    other.reprioritize(old, JobPriority.NORMAL)
    assert [job.uuid for job in one.claim_next("one", names)] == [old.uuid]


def test_a_post_of_a_long_transaction_is_claimed_after_a_look_from_the_start(
    clients: Clients, names: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floors, "MAX_PAUSE", 0.3)
    one, _ = clients
    with site.server.client() as connection:
        connection.cursor().execute("BEGIN")
        late = one.post("resize", connection=connection)
        one.post("resize")
        one.claim_next("one", names)
        connection.cursor().execute("COMMIT")
    # One who waits wakes for that look.
    backend: Any = one._backend  # type: ignore[attr-defined]
    assert backend.operations.reading.ready_in(names and frozenset(names)) <= 0.3
    assert eventually(lambda: one.claim_next("one", names))[0].uuid == late.uuid


def test_a_delayed_post_of_a_long_transaction_is_seen_while_a_name_is_paused(
    clients: Clients, names: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floors, "MAX_PAUSE", 0.3)
    one, _ = clients
    ready_in: Any = one._backend.operations.reading.ready_in  # type: ignore[attr-defined]
    with site.server.client() as connection:
        connection.cursor().execute("BEGIN")
        late = one.post("resize", connection=connection, delay=0.01)
        time.sleep(0.02)
        one.post("resize")
        one.claim_next("one", names)
        one.pause("other")
        connection.cursor().execute("COMMIT")
    wait = ready_in(names and frozenset(names))
    assert wait is not None
    assert wait <= 0.3
    assert eventually(lambda: one.claim_next("one", names))[0].uuid == late.uuid


def test_a_claim_beside_a_snapshot_reads_few_pages_more_than_before(clients: Clients, names: Any, site: Site) -> None:
    one, other = clients
    # A page of MariaDB's has more entries.
    size = 100 if site.is_postgresql else 400

    def live(rounds: int) -> None:
        for _ in range(rounds):
            one.post_many([Posting("resize") for _ in range(size)])
            one.consume_many(one.claim_next("one", names, limit=size, expiry=_EXPIRY), "one")

    with site.server.client() as reader:
        isolation = "ISOLATION LEVEL REPEATABLE READ" if site.is_postgresql else "WITH CONSISTENT SNAPSHOT"
        reader.cursor().execute(f"START TRANSACTION {isolation}")
        reader.cursor().execute("SELECT count(*) FROM jobboard_jobs")
        live(2)
        before = _pages_of_a_claim(site, one, names)
        live(40)
        # On MariaDB a claim passes the entries of claims that have ended before their time was over.
        time.sleep(_EXPIRY)
        one.post("resize")
        one.claim_next("one", names)
        after = _pages_of_a_claim(site, one, names)
        assert after < before + 10
        # A client that has no floors yet passes the dead entries.
        assert _pages_of_a_claim(site, other, names) > after + 30


def _pages_of_a_claim(site: Site, board: JobBoard, names: Any) -> int:
    """Return how many pages a claim reads; on PostgreSQL one that is undone."""
    return _pages_on_postgresql(board, names) if site.is_postgresql else _pages_on_mariadb(site, board, names)


def _pages_on_mariadb(site: Site, board: JobBoard, names: Any) -> int:
    def pages() -> int:
        [(_, count)] = site.run("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'")
        return int(count)

    def cost() -> int:
        database: Any = board._backend.database  # type: ignore[attr-defined]
        board.post("resize")
        seen, before = dict(database.floors._seen), pages()
        assert len(board.claim_next("one", names, expiry=_EXPIRY)) == 1
        count = pages() - before
        database.floors._seen = seen
        return count

    # The server does other things meanwhile.
    return min(cost() for _ in range(5))


def _pages_on_postgresql(board: JobBoard, names: Any) -> int:
    database: Any = board._backend.database  # type: ignore[attr-defined]
    statement = claiming.CLAIM_NEXT if names is None else claiming.CLAIM_NEXT_OF_NAMES
    text, constants = statement.on(database.driver.dialect)
    look = database.floors.look(None if names is None else frozenset(names))
    claim = {"board": database.board, "limit": 1, "who": "one", "claim_id": "c", "expiry": 30.0}
    with database._borrow() as connection:
        connection.execute("BEGIN")
        explained = connection.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}".encode(), {**constants, **claim, **asked_by(look)}
        )
        [([plan],)] = explained.fetchall()
        connection.execute("ROLLBACK")
    return int(plan["Plan"]["Shared Hit Blocks"]) + int(plan["Plan"]["Shared Read Blocks"])
