"""Clients of two layouts: each refuses the other's board; one that stays connected during an upgrade harms nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobboard import BoardUnavailable, JobState, backend, fetch
from jobboard.backends.layout import LAYOUT
from jobboard.backends.sql.schema import VERSION
from layouts.dumps import FAR, NAME, STORES, Store, fill, running
from layouts.earlier import OF_LAYOUT, Client, unpack

pytestmark = pytest.mark.in_turn(1)

#: The oldest and the last one; what is between them is upgraded in test_layouts.py, too.
EARLIER = (min(OF_LAYOUT), max(OF_LAYOUT))


@pytest.fixture(scope="module", params=EARLIER)
def code(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(OF_LAYOUT[request.param], tmp_path_factory.mktemp("code"))


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with running(request.param, tmp_path) as store:
        yield store


@pytest.fixture
def earlier(code: Path, store: Store) -> Iterator[Client]:
    with Client(code, store.uri) as client:
        yield client


def numbers_in(error: pytest.ExceptionInfo[BoardUnavailable]) -> set[str]:
    return set(re.findall(r"(?:layout|schema|reads|needs)\D{0,10}(\d+)", str(error.value)))


def numbers_of(store: Store, earlier: Client) -> set[str]:
    """Return the earlier number and ours, as the errors of the store name them."""
    numbers = earlier.ask("numbers")
    return {numbers["schema"], str(VERSION)} if "sql" in store.uri else {numbers["layout"], str(LAYOUT)}


def test_an_earlier_client_refuses_our_board_and_changes_nothing(store: Store, earlier: Client) -> None:
    with backend(NAME, store.uri) as board:
        fill(board)
    before = store.dump()
    with pytest.raises(BoardUnavailable) as refusal:
        earlier.ask("connect")
    assert numbers_in(refusal) == numbers_of(store, earlier)
    assert store.dump() == before


def begin(store: Store, earlier: Client) -> None:
    """Let an earlier client make a board and hold a claim; ours refuses that board, and changes nothing."""
    for call in ("connect", "fill", "claim"):
        earlier.ask(call)
    before = store.dump()
    with pytest.raises(BoardUnavailable, match="jobboard (upgrade|migrate)") as refusal:
        fetch(NAME, store.uri).connect()
    assert numbers_in(refusal) == numbers_of(store, earlier)
    assert store.dump() == before


@pytest.mark.parametrize("store", ["sqlite", "postgresql", "mariadb", "redis"], indirect=True)
def test_an_earlier_client_that_stays_connected_harms_nothing_after_an_upgrade(store: Store, earlier: Client) -> None:
    begin(store, earlier)
    fetch(NAME, store.uri).migrate()
    with backend(NAME, store.uri) as board:
        # A job that only our clients write: it has a place that is later than its posting.
        ours = board.post("ours", priority="very_high")
        board.claim(ours, "bob")
        board.abandon(ours, "bob", delay=0.001)
    used = earlier.ask("use")
    earlier.close()
    check_whole(store, used)


@pytest.mark.parametrize("store", ["etcd", "zookeeper"], indirect=True)
def test_a_board_that_programs_use_is_not_upgraded(store: Store, earlier: Client) -> None:
    begin(store, earlier)
    before = store.dump()
    with pytest.raises(BoardUnavailable, match="stop them"):
        fetch(NAME, store.uri).migrate()
    assert store.dump() == before
    earlier.ask("leave")
    earlier.close()
    fetch(NAME, store.uri).migrate()
    check_whole(store, {"posted": [], "consumed": []})


def check_whole(store: Store, used: dict[str, list[str]]) -> None:
    """Every job is there, those that are ready can be claimed, and there is nothing to repair."""
    with backend(NAME, store.uri) as board:
        assert board.audit() == []
        jobs = {job.uuid: (job.name, job.state) for job in board.iterjobs(states=set(JobState))}
        names = {name for name, _ in jobs.values()}
        assert {"low", "second", "first", "keyed", "delayed", "returned", "consumed", "trashed"} <= names
        assert set(used["posted"]) <= jobs.keys()
        assert {jobs[uuid][1] for uuid in used["consumed"]} <= {JobState.COMPLETE}
        ready = {uuid for uuid, (name, state) in jobs.items() if state is JobState.UNCLAIMED and name != "second"}
        assert {job.uuid for job in board.claim_next("carol", limit=50)} == ready
        assert board.schedules.get("nightly").next_fire_time == FAR
        assert board.audit() == []
