"""Shards are added, opened, drained and removed while several clients use the board; each learns it in time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import jobboard
from jobboard import AlreadyPosted, BoardUnavailable, Every, JobBoard, LogBook, Posting, Schedule
from jobboard.backends.loading import backend_at
from jobboard.backends.shards import reshaping, roster
from jobboard.backends.shards.backend import ShardsBackend
from jobboard.backends.shards.reshaping import Reshaping
from jobboard.errors import JobBoardError, NotFound


class Files:
    """A board of SQLite files, by their letters."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: list[JobBoard] = []

    def uri(self, letter: str) -> str:
        return f"sqlite:///{self._folder}/{letter}.db"

    def board(self, letters: str, **options: Any) -> JobBoard:
        uris = "&".join(f"uri={quote(self.uri(letter), safe='')}" for letter in letters)
        board = jobboard.fetch("jobs", f"shards://?{uris}", patience=0.5, **options)
        board.connect()
        self._opened.append(board)
        return board

    def operator(self, letters: str) -> Reshaping:
        backend = self.board(letters)._backend
        assert isinstance(backend, ShardsBackend)
        return backend.reshaping(lambda _: None)

    def add(self, letters: str, letter: str) -> int:
        return self.operator(letters).add(backend_at("jobs", self.uri(letter)), 10.0)

    def counts(self, letters: str) -> list[int]:
        """Return how many jobs each file has."""
        found = []
        for letter in letters:
            with jobboard.backend("jobs", self.uri(letter)) as part:
                found.append(part.job_count)
        return found

    def close(self) -> None:
        for board in self._opened:
            board.close()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    for name, value in {"REFRESH": 0.1, "VALID": 1.0, "REFRESH_OF_CLAIMS": 0.1, "_POLL": 0.05}.items():
        monkeypatch.setattr(roster, name, value)
    for name, value in {"_MARGIN": 0.1, "_PRESS_TIME": 1.0, "_PASS_INTERVAL": 0.5, "_LOOK_INTERVAL": 0.1}.items():
        monkeypatch.setattr(reshaping, name, value)
    files = Files(tmp_path)
    yield files
    files.close()


def end_all(board: JobBoard) -> list[str]:
    """Claim and consume whatever can be; return the keys or uuids."""
    done = []
    while jobs := board.claim_next("alice", limit=50):
        done += [job.key or job.uuid for job in jobs]
        board.consume_many(jobs, "alice")
    return done


def test_a_shard_that_is_added_takes_what_can_go_anywhere(files: Files) -> None:
    old = files.board("ab")
    keyed = {old.post("resize", key=str(number)).uuid for number in range(40)}
    assert files.add("ab", "c") == 2
    new = files.board("abc")
    assert [shard.state for shard in new._backend.shards()] == ["open", "open", "added"]
    plain = {new.post("resize").uuid for _ in range(60)}
    for number in range(40):
        with pytest.raises(AlreadyPosted):
            new.post("resize", key=str(number))
    assert files.counts("c")[0] > 5
    assert {job.uuid for job in new.iterjobs()} == keyed | plain
    assert old.post("resize", key="of an old program")
    assert len(end_all(new)) == 101
    assert new.audit() == []


def test_a_program_that_lacks_an_added_shard_goes_on_and_is_told(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    old = files.board("ab")
    files.add("ab", "c")
    assert old.post_many([Posting("resize") for _ in range(10)])
    new = files.board("abc")
    assert len(end_all(old)) == 10
    posted = {new.post("resize").uuid for _ in range(40)}
    old.post("resize")
    with pytest.raises(BoardUnavailable, match=r"shards? 2: it was added .* restart it with all of them"):
        old.stats()
    files.board("ab")
    assert "shards that this program does not name: 2" in caplog.text
    files.operator("abc").open(2)
    with pytest.raises(BoardUnavailable, match=r"has 3 shards \(0, 1, 2\), not 2; name all of them"):
        files.board("ab")
    assert len(posted) == 40


def test_keys_and_lanes_go_to_a_shard_once_it_is_open(files: Files) -> None:
    board = files.board("ab")
    before = {key: board.post("resize", key=key).uuid for key in map(str, range(30))}
    files.add("ab", "c")
    new = files.board("abc")
    files.operator("abc").open(2)
    for key, uuid in before.items():
        with pytest.raises(AlreadyPosted) as caught:
            new.post("resize", key=key)
        assert caught.value.uuid == uuid
    for number in range(30):
        new.post("resize", key=f"new {number}")
    assert files.counts("c")[0] > 2
    assert sorted(end_all(new)) == sorted([*before, *(f"new {number}" for number in range(30))])
    assert new.audit() == []


def test_a_drained_shard_runs_empty_and_is_removed(files: Files) -> None:
    board = files.board("abc", retention=0.0)
    board.limits.set(lane="tenant:*", running=1)
    board.schedules.add(Schedule("nightly", Every(hours=1), "resize"))
    for number in range(20):
        board.schedules.add(Schedule(f"hourly {number}", Every(hours=1), "resize"))
    for number in range(60):
        board.post("resize", key=f"key {number}")
        board.post("resize")
        board.post("resize", lane=f"tenant:{number % 10}")
    operator = files.operator("abc")
    with pytest.raises(JobBoardError, match="shard 1 is open; drain it first"):
        operator.remove(1)
    assert any("unclaimed jobs" in each for each in operator.drain(1, 0.0))
    with pytest.raises(JobBoardError, match=r"shard 1 still has .* unclaimed jobs"):
        operator.remove(1)
    held = files.counts("b")
    for number in range(60):
        with pytest.raises(AlreadyPosted):
            board.post("resize", key=f"key {number}")
        board.post("resize")
        board.post("resize", key=f"another {number}")
    assert files.counts("b") == held
    assert len(end_all(board)) == 300
    assert len(list(board.schedules)) == 21
    assert operator.drain(1, 5.0) == []


def test_remove_says_what_is_left_and_the_board_goes_on_without_it(files: Files) -> None:
    board = files.board("abc", retention=0.0)
    books = [LogBook(f"book {number}") for number in range(10)]
    for book in books:
        board.save_book(book)
    for number in range(30):
        board.post("resize", key=str(number))
    for job in board.claim_next("alice", limit=30):
        board.trash(job, "alice")
    operator = files.operator("abc")
    operator.drain(1, 0.0)
    with pytest.raises(JobBoardError, match=r"jobs in the trash \(restore or purge them\); .* logbooks, such as"):
        operator.remove(1)
    for job in list(board.trashed()):
        board.purge(job)
    for book in books:
        board.destroy_book(book.uuid)
    assert operator.drain(1, 5.0) == []
    operator.remove(1)
    operator.remove(1)
    posted = {board.post("resize", key=str(number)).uuid for number in range(30)}
    assert {job.uuid for job in board.iterjobs()} == posted
    assert files.counts("b") == [0]
    for letters, told in (
        ("abc", "store 2 of board 'jobs' was its shard 1, which was removed"),
        ("a", "name all of them"),
    ):
        with pytest.raises(BoardUnavailable, match=told):
            files.board(letters)
    other = files.board("ac")
    assert len(end_all(other)) == 30
    assert other.audit() == board.audit() == []
    assert files.add("ac", "b") == 3
    assert files.board("acb").stats().unclaimed == 0


def test_what_is_moved_waits_and_is_unique(files: Files) -> None:
    """Two clients post the same keys all the time, while another one ends them, and a shard is drained."""
    boards = [files.board("abc", retention=0.0) for _ in range(3)]
    is_over, failures = threading.Event(), list[BaseException]()
    live, guard = dict[str, int](), threading.Lock()

    def post(board: JobBoard) -> None:
        turn = 0
        try:
            while not is_over.is_set():
                turn += 1
                try:
                    board.post("resize", key=f"k{turn % 40}")
                except AlreadyPosted:
                    pass
        except BaseException as error:
            failures.append(error)

    def work(board: JobBoard) -> None:
        try:
            while not is_over.is_set():
                for job in board.claim_next("alice", limit=20):
                    with guard:
                        live[str(job.key)] = live.get(str(job.key), 0) + 1
                        assert live[str(job.key)] == 1, f"{job.key} is live twice"
                    with guard:
                        live[str(job.key)] = 0
                        board.consume(job, "alice")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=post, args=(board,)) for board in boards[:2]]
    threads.append(threading.Thread(target=work, args=(boards[2],)))
    for thread in threads:
        thread.start()
    try:
        left = files.operator("abc").drain(2, 20.0)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert left == []
    assert boards[0].audit() == []
    keys = [job.key for job in boards[0].iterjobs()]
    assert len(keys) == len(set(keys))


@contextmanager
def killed_before_write(number: int) -> Iterator[None]:
    """Let a command die before its so-many-th write of a table."""
    write, left = reshaping.table.write, [number]

    def dying(*arguments: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        write(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reshaping.table, "write", dying)
        yield


@pytest.mark.parametrize("writes", range(1, 9))
def test_a_command_that_is_killed_is_repeated(files: Files, writes: int) -> None:
    board = files.board("abc")
    for number in range(20):
        board.post("resize", key=str(number))
        board.schedules.add(Schedule(f"hourly {number}", Every(hours=1), "resize"))
    with killed_before_write(writes), suppress(KeyboardInterrupt):
        files.operator("abc").drain(2, 0.0)
    files.operator("abc").drain(2, 0.0)
    states = [shard.state for shard in files.board("abc")._backend.shards()]
    assert states == ["open", "open", "draining"]
    assert len(list(board.schedules)) == 20
    for number in range(20):
        with pytest.raises(AlreadyPosted):
            board.post("resize", key=str(number))
        board.post("resize", key=f"new {number}")
    assert len(end_all(board)) == 40


@pytest.mark.parametrize("writes", range(1, 4))
def test_an_addition_that_is_killed_is_repeated(files: Files, writes: int) -> None:
    files.board("ab").pause("rotate", by="bob")
    with killed_before_write(writes), pytest.raises(KeyboardInterrupt):
        files.add("ab", "c")
    assert files.add("ab", "c") == 2
    board = files.board("abc")
    for _ in range(20):
        board.post("rotate")
    assert board.claim_next("alice", limit=20) == []
    assert len(board._backend.shards()) == 3


def test_what_can_not_be_done_is_refused_by_name(files: Files) -> None:
    board = files.board("ab")
    operator = files.operator("ab")
    with pytest.raises(NotFound, match="has no shard 7"):
        operator.drain(7, 0.0)
    operator.drain(1, 0.0)
    with pytest.raises(JobBoardError, match="shard 0 is the last open one"):
        operator.drain(0, 0.0)
    operator.open(1)
    with jobboard.backend("jobs", files.uri("c")) as plain:
        plain.post("resize")
    with pytest.raises(JobBoardError, match="the new store has a board 'jobs' already, with 1 unclaimed jobs"):
        files.add("ab", "c")
    with pytest.raises(JobBoardError, match="this store is shard 1 of board 'jobs' already"):
        files.add("ab", "b")
    board.limits.set(name="resize", running=10)
    with pytest.raises(JobBoardError, match="the limit of jobs named 'resize' is divided among the shards"):
        files.add("ab", "d")


def test_shards_take_turns_while_they_come_and_go(files: Files) -> None:
    """Two jobs at a time, whatever shards there are; a removed shard takes no slot along."""
    board = files.board("abc", retention=0.0)
    board.limits.set(name="resize", running=2)
    board.post_many([Posting("resize", key=str(number)) for number in range(30)])
    first = board.claim_next("alice", limit=50)
    assert len(first) == 2
    assert files.add("abc", "d") == 3
    files.operator("abcd").open(3)
    board = files.board("abcd", retention=0.0)
    for number in range(30, 60):
        board.post("resize", key=str(number))
    assert board.claim_next("bob", limit=50) == []
    for job in first:
        board.consume(job.uuid, "alice", token=job.token)
    done = 2
    for _ in range(58):
        jobs = board.claim_next("bob", limit=50)
        assert len(jobs) <= 2
        done += len(jobs)
        board.consume_many(jobs, "bob")
    assert (done, board.job_count, board.audit()) == (60, 0, [])
    files.operator("abcd").drain(1, 5.0)
    files.operator("abcd").remove(1)
    files.operator("acd").drain(0, 5.0)
    with pytest.raises(JobBoardError, match="shard 0 still has the slots of limits of 1 names, such as 'resize'"):
        files.operator("acd").remove(0)
    board = files.board("acd")
    board.post_many([Posting("resize", key=str(number)) for number in range(9)])
    assert len(board.claim_next("alice", limit=50)) == 2
    assert board.limits.remove(name="resize")
    assert len(board.claim_next("alice", limit=50)) == 7
