"""Conductors that operators tell to claim no more, from any host."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from helpers.command_line import Run, as_json
from helpers.conducting import conducting

from jobboard import BoardUnavailable, Conductor, Entity, Handlers, JobBoard, JobState, Posting, StaleBook, fetch
from jobboard.backends.book_rows import BookSave
from jobboard.board import client_of
from jobboard.operate.overview import overview
from jobboard.operate.why import why
from jobboard.quiet import QUIET_BOOK, quiet_ones, set_quiet
from jobboard.testing import eventually

pytest_plugins = ("helpers.command_fixtures",)

handlers = Handlers()
handlers.add("a", lambda job: None)


@pytest.fixture
def conductor(board: JobBoard) -> Iterator[Conductor]:
    conductor = Conductor("worker", board, handlers)
    conductor.start()
    yield conductor
    conductor.stop(timeout=10)


def receive(conductor: Conductor) -> None:
    """Let it register now, not within 10 seconds."""
    assert conductor._run is not None
    conductor._run._heartbeat.register_again()
    conductor._run._renewer.renew_soon()


def is_quiet(board: JobBoard, conductor: Conductor) -> bool:
    (told,) = [entity.metadata["quiet"] for entity in board.entities() if entity.name == conductor.who]
    return bool(told)


def test_a_quiet_conductor_claims_no_more_until_it_is_told_so(
    jobboard: Run, board: JobBoard, conductor: Conductor
) -> None:
    assert board.post("a").wait(20)
    assert f"{conductor.who} will claim no more" in jobboard("quiet", "worker@")
    receive(conductor)
    eventually(lambda: is_quiet(board, conductor), 20)
    assert conductor.healthy
    # Its claimer has left the last wait, and begins no other one.
    eventually(lambda: conductor._run is not None and conductor._run._claimer._waiter is None, 20)
    first = board.post("a")
    assert [reason.kind for reason in why(board, board.get(first.uuid))] == ["quiet"]
    assert overview(board).names[0].conductors == 0
    other = Conductor("other", board, handlers)
    other.start()
    try:
        jobs = [first, *board.post_many([Posting("a")] * 30)]
        assert all(job.wait(20) for job in jobs)
        assert {job.owner for job in jobs} == {other.who}
    finally:
        other.stop(timeout=10)
    assert as_json(jobboard("status", "--json"))["conductors"]["quiet"] == 1
    last = board.post("a")
    assert as_json(jobboard("quiet", "--off", conductor.who, "--json")) == {
        "conductors": [conductor.who], "quiet": False,
    }  # fmt: skip
    receive(conductor)
    assert last.wait(20)


def test_one_that_waits_stops_to_wait_and_tells_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # It registers when it receives something, and not by itself while this runs.
    monkeypatch.setattr("jobboard.board.renewer._MAX_INTERVAL", 3600.0)
    with fetch("work", f"memory://{uuid.uuid4().hex}") as board, conducting(board, handlers, expiry=1e5) as conductor:
        eventually(lambda: conductor._run._claimer._waiter is not None)
        for quiet in (True, False):
            set_quiet(board, [conductor.who], quiet)
            receive(conductor)
            eventually(lambda quiet=quiet: is_quiet(board, conductor) is quiet)
            eventually(lambda quiet=quiet: (conductor._run._claimer._waiter is None) is quiet)


def test_its_handlers_go_on(jobboard: Run, board: JobBoard) -> None:
    def wait(job: object) -> str:
        eventually(lambda: quiet_ones(board) == {slow.who}, 20)
        receive(slow)
        eventually(lambda: is_quiet(board, slow), 20)
        return "done"

    slowly = Handlers()
    slowly.add("slow", wait)
    slow = Conductor("slow", board, slowly)
    slow.start()
    try:
        job = board.post("slow")
        eventually(lambda: job.state is JobState.CLAIMED, 20)
        jobboard("quiet", slow.who)
        assert job.wait(20)
        assert job.result == "done"
    finally:
        slow.stop(timeout=10)


def test_a_book_that_cannot_be_decoded_harms_no_conductor(board: JobBoard, conductor: Conductor) -> None:
    client_of(board).backend.books.save(BookSave(QUIET_BOOK, "version", None, b"\xc1"))
    with pytest.raises(BoardUnavailable, match="can't be decoded"):
        quiet_ones(board)
    (before,) = board.entities()
    receive(conductor)
    eventually(lambda: (board.entities()[0].last_seen or 0) > before.last_seen, 20)
    assert board.post("a").wait(20)


class TestCommand:
    @pytest.fixture(autouse=True)
    def workers(self, board: JobBoard) -> None:
        for name in ("w@h1:1", "w@h1:2", "w@h2:1"):
            board.register_entity(Entity("conductor", name, {"names": ["a"]}, ttl=600))
        board.register_entity(Entity("scheduler", "s@h1", ttl=600))

    def test_several_are_asked_about(self, jobboard: Run, board: JobBoard) -> None:
        assert "let 2 conductors claim no more: w@h1:1, w@h1:2? Say --yes" in jobboard("quiet", "w@h1", status=2)
        assert quiet_ones(board) == frozenset()
        jobboard("quiet", "w@h1", "--yes")
        assert quiet_ones(board) == {"w@h1:1", "w@h1:2"}
        jobboard("quiet", "w@h2")
        jobboard("quiet", "--off", "w@h1:1")
        assert quiet_ones(board) == {"w@h1:2", "w@h2:1"}

    @pytest.mark.parametrize("who", ["x", "s@h1", "w@h1:3"])
    def test_nobody_of_that_name(self, jobboard: Run, who: str) -> None:
        assert "begins with" in jobboard("quiet", who, status=1)


class TestBook:
    def test_who_is_long_gone_is_forgotten(self, board: JobBoard) -> None:
        board.register_entity(Entity("conductor", "a", ttl=600))
        set_quiet(board, ["a"], True)
        board.remove_entity(Entity("conductor", "a"))
        board.register_entity(Entity("conductor", "b", ttl=600))
        set_quiet(board, ["b"], True)
        assert quiet_ones(board) == {"b"}

    def test_what_is_in_the_book_may_be_anything(self, board: JobBoard) -> None:
        board.register_entity(Entity("conductor", "a", ttl=600))
        set_quiet(board, ["a"], True)
        book = board.load_book(QUIET_BOOK)
        for names in (3, [3, ["a"], None], {}):
            book.meta["names"] = names
            board.save_book(book)
            assert quiet_ones(board) == frozenset()

    def test_changes_of_others_are_kept(self, board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("a", "b"):
            board.register_entity(Entity("conductor", name, ttl=600))
        save, other = JobBoard.save_book, ["b"]

        def save_after_another(self: JobBoard, book: object) -> None:
            if other:
                set_quiet(self, [other.pop()], True)
            save(self, book)  # type: ignore[arg-type]

        monkeypatch.setattr(JobBoard, "save_book", save_after_another)
        set_quiet(board, ["a"], True)
        assert quiet_ones(board) == {"a", "b"}

    def test_it_gives_up_in_the_end(self, board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
        def be_late(self: JobBoard, book: object) -> None:
            raise StaleBook("late")

        board.register_entity(Entity("conductor", "a", ttl=600))
        monkeypatch.setattr(JobBoard, "save_book", be_late)
        with pytest.raises(BoardUnavailable, match="20 times"):
            set_quiet(board, ["a"], True)
