"""Every mutation, with each of its requests in turn lost on the way to a server or back: done once, all the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from harnesses.mutations import MUTATIONS, Act, Prepare, photo_of
from harnesses.sql_harness import SqlHarness
from harnesses.sql_site import Site
from servers.base import HOST
from servers.proxy import Cut, Proxy

from jobboard import At, JobBoard, Posting, Schedule
from jobboard.backends.sql.batch import _Batch
from jobboard.backends.sql.mysql import replies
from jobboard.backends.sql.postgresql.prepared import PreparedStatement

pytest_plugins = ("harnesses.sql_fixtures",)
pytestmark = pytest.mark.in_turn(1)

LONG = 600.0
#: More turns than any mutation has requests.
_MOST = 40


class Line(NamedTuple):
    """A line to a server through a proxy, and boards at its far end."""

    proxy: Proxy
    far: SqlHarness


@pytest.fixture
def line(site: Site) -> Iterator[Line]:
    with (
        Proxy((HOST, site.server.port)) as proxy,
        type(site.harness)(site.server.uri.replace(str(site.server.port), str(proxy.port))) as far,
    ):
        yield Line(proxy, far)


def _moment(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


def _schedule() -> Schedule:
    return Schedule("nightly", At(_moment(2099)), "resize", details={"n": 1})


SCHEDULING: dict[str, tuple[Prepare, Act]] = {
    "add a schedule": (lambda board: None, lambda board, _: board.schedules.add(_schedule())),
    "pause a schedule": (
        lambda board: board.schedules.add(_schedule()),
        lambda board, _: board.schedules.pause("nightly", note="a feast"),
    ),
    "fire a schedule": (
        lambda board: board.schedules.add(_schedule()),
        lambda board, _: board.schedules.backfill("nightly", _moment(2098), _moment(2100)),
    ),
    "remove a schedule": (
        lambda board: board.schedules.add(_schedule()),
        lambda board, _: board.schedules.remove("nightly"),
    ),
}
ALL = {**MUTATIONS, **SCHEDULING}


def _photo(board: JobBoard) -> Any:
    return photo_of(board), [(found.id, found.paused) for found in board.schedules]


@pytest.mark.parametrize("mutation", ALL)
def test_whatever_reply_is_lost_the_effect_is_that_of_once(site: Site, line: Line, mutation: str) -> None:
    _break_each_request(site, line, mutation, "reply")


@pytest.mark.parametrize("mutation", ["post", "post many", "claim next", "consume", "abandon", "fire a schedule"])
def test_whatever_request_is_lost_the_effect_is_that_of_once(site: Site, line: Line, mutation: str) -> None:
    _break_each_request(site, line, mutation, "request")


def _break_each_request(site: Site, line: Line, mutation: str, what: Cut) -> None:
    """Each in turn of what a mutation sends: the beginning, the statements, the commit."""
    prepare, act = ALL[mutation]
    expected = site.harness.board()
    act(expected, prepare(expected))
    photo = _photo(expected)
    for turn in range(_MOST):
        board = line.far.board(f"{expected.name}-{turn}")
        prepared = prepare(board)
        line.proxy.cut(what, after=turn)
        act(board, prepared)
        was_beyond_the_last = line.proxy.disarm()
        assert _photo(board) == photo
        assert board.audit() == []
        board.close()
        if was_beyond_the_last:
            assert turn > 0
            return
    raise AssertionError("the mutation sent more requests than it should")


def test_claims_found_again_after_a_lost_reply_can_be_ended(line: Line) -> None:
    board = line.far.board()
    posted = board.post_many([Posting("resize", priority=priority) for priority in ("low", "high", "normal")])
    line.proxy.cut("reply")
    jobs = board.claim_next("alice", limit=3, expiry=LONG)
    assert jobs == [posted[1], posted[2], posted[0]]
    assert board.consume_many(jobs, "alice") == [None] * 3


def test_a_first_try_that_is_committed_between_two_looks_of_the_second_is_the_same(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = site.harness.board()
    first = site.harness.board(board.name)
    uuid, look = str(uuid4()), _Batch._find_uuids

    def look_and_let_the_first_try_end(batch: Any) -> Any:
        found = look(batch)
        monkeypatch.undo()
        first.post("resize", key="k", uuid=uuid)
        return found

    # A batch of this size, with one to replace, takes several statements on every server.
    monkeypatch.setattr(_Batch, "_find_uuids", look_and_let_the_first_try_end)
    again, _ = board.post_many([Posting("resize", key="k", uuid=uuid), Posting("resize", key="l", if_exists="replace")])
    assert (again.uuid, board.job_count) == (uuid, 2)


@pytest.mark.parametrize("names", [None, ["resize"]])
def test_an_empty_answer_to_a_claim_is_a_lost_reply(
    site: Site, monkeypatch: pytest.MonkeyPatch, names: list[str] | None
) -> None:
    board = site.harness.board()
    jobs = [board.post("resize") for _ in range(3)]
    real, emptied = PreparedStatement.rows if site.is_postgresql else replies.result_sets, list[Any]()

    def empty_once(*arguments: Any) -> Any:
        answer = real(*arguments)
        if not emptied and any(
            "SKIP LOCKED" in str(each) or "jobboard_claim" in str(each) for each in texts(arguments)
        ):
            emptied.append(answer)
            return [] if site.is_postgresql else [[], []]
        return answer

    def texts(arguments: Any) -> list[Any]:
        return [arguments[0]._text] if site.is_postgresql else [arguments[1]]

    if site.is_postgresql:
        monkeypatch.setattr(PreparedStatement, "rows", empty_once)
    else:
        monkeypatch.setattr(replies, "result_sets", empty_once)
    claimed = [board.claim_next("alice", names, expiry=LONG) for _ in range(3)]
    assert claimed == [[job] for job in jobs]
    assert len(emptied) == 1
    assert [job.attempts for job in jobs] == [1] * 3
