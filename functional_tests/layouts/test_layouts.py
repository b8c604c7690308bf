"""A board of each earlier layout is refused by name, and then upgraded in place with everything that is on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobboard import BoardUnavailable, JobBoard, JobState, backend, fetch
from jobboard.backends.layout import LAYOUT
from jobboard.backends.sql.schema import VERSION
from layouts.dumps import FAR, LANES, NAME, STORES, Store, file_of, running

STATES = {
    "low": JobState.UNCLAIMED,
    "second": JobState.UNCLAIMED,
    "first": JobState.UNCLAIMED,
    "keyed": JobState.UNCLAIMED,
    "returned": JobState.UNCLAIMED,
    "delayed": JobState.DELAYED,
    "consumed": JobState.COMPLETE,
    "trashed": JobState.TRASHED,
}


#: The versions of the schema that databases had with each layout.
SCHEMAS = {1: "4", 2: "5", 3: "6"}


@pytest.fixture(params=range(1, LAYOUT))
def layout(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, layout: int, tmp_path: Path) -> Iterator[Store]:
    """A store with the board that an earlier layout's jobboard made."""
    with running(request.param, tmp_path) as store:
        store.load(file_of(request.param, layout).read_text())
        yield store


def states_on(board: JobBoard) -> dict[str, JobState]:
    return {job.name: job.state for job in board.iterjobs(states=set(STATES.values()))}


def test_a_board_of_an_earlier_layout_is_refused_until_it_is_upgraded_and_then_serves_all_its_jobs(
    store: Store, layout: int
) -> None:
    found, ours = (SCHEMAS[layout], str(VERSION)) if "sql" in store.uri else (str(layout), str(LAYOUT))
    for _ in range(2):
        with pytest.raises(BoardUnavailable, match=rf"\b{found}\b.*\b{ours}\b.*jobboard (upgrade|migrate)"):
            fetch(NAME, store.uri).connect()
    upgrade = fetch(NAME, store.uri).migrate()
    assert (upgrade.found, upgrade.now) == (found, ours)
    assert fetch(NAME, store.uri).migrate().found == ours
    with backend(NAME, store.uri) as board:
        assert states_on(board) == STATES
        assert board.audit() == []
        use_every_job(board)
        assert board.audit() == []


def use_every_job(board: JobBoard) -> None:
    """What was paused waits; the others are claimed in the order that they had."""
    newest = board.post("newest", priority="high")
    claimed = board.claim_next("carol", limit=10)
    names = [job.name for job in claimed]
    assert (names[:2], names[-1], set(names[2:4])) == (["first", "newest"], "low", {"keyed", "returned"})
    if board.store.startswith("redis") or "sql" in board.store:
        # A znode or a key that was put back has a new moment of its creation.
        assert names[2:4] == ["keyed", "returned"]
    assert newest in claimed
    returned = next(job for job in claimed if job.name == "returned")
    assert (returned.checkpoint, returned.attempts, returned.details) == ({"at": 7}, 2, {})
    assert board.consume_many(claimed, "carol") == [None] * 5
    [pause] = board.pauses()
    assert (pause.name, pause.by, pause.reason) == ("second", "ada", "disk full")
    board.resume("second")
    [second] = board.claim_next("carol", limit=10)
    assert (second.name, second.details) == ("second", {"number": 1})
    board.abandon(second, "carol")
    delayed = board.find("delayed", "late")
    assert delayed.run_at == FAR
    board.run_now(delayed)
    [trashed] = board.trashed()
    assert trashed.record.reason == "broken"
    board.restore(trashed.uuid)
    rest = board.claim_next("dan", limit=10)
    assert [job.name for job in rest] == ["second", "delayed", "trashed"]
    assert board.consume_many(rest, "dan") == [None] * 3
    consumed = next(job for job in board.iterjobs(states=[JobState.COMPLETE]) if job.name == "consumed")
    assert consumed.result == {"pages": 3}
    assert board.schedules.get("nightly").next_fire_time == FAR
    assert board.load_book("6d0ecd6c-4d5b-4d5e-9d7e-0d4f0a2f8f10").name == "notes"
    assert board.job_count == 0


@pytest.mark.parametrize("name", STORES)
def test_jobs_of_lanes_keep_their_lanes_and_places(name: str, tmp_path: Path) -> None:
    """A board with lanes, as the third layout's jobboard made it."""
    with running(name, tmp_path) as store:
        store.load(file_of(name, 3).read_text())
        fetch(LANES, store.uri).migrate()
        with backend(LANES, store.uri) as board:
            assert board.audit() == []
            use_lanes(board)
            assert board.audit() == []


def use_lanes(board: JobBoard) -> None:
    assert {limit.running for limit in board.limits} == {1, 2}
    waiting = list(board.iterjobs(states=[JobState.BLOCKED]))
    assert [(job.name, job.lane, job.details) for job in waiting] == [("sync", "tenant:7", {"number": 2})]
    for number in (1, 2):
        [sync] = board.claim_next("carol", names=["sync"], limit=10)
        assert (sync.lane, sync.details) == ("tenant:7", {"number": number})
        board.consume(sync, "carol")
    [later] = board.iterjobs(states=[JobState.DELAYED])
    assert (later.lane, later.run_at) == ("tenant:8", FAR)
    board.run_now(later)
    [broken] = board.trashed()
    board.restore(broken.uuid)
    assert {job.lane for job in board.claim_next("carol", limit=10)} == {"tenant:8", "tenant:9"}
