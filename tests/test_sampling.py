"""The history of a board: one sampler looks for all, and what it saw outlives it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.counted_requests import count_requests
from helpers.memory_seam import HandClock, fresh_name

from jobboard import BoardUnavailable, JobBoard, LogBook, NotFound, Posting, fetch
from jobboard.backends.memory import MemoryBackend
from jobboard.board import client_of
from jobboard.operate.sampling import Bucket, Sampler
from jobboard.operate.sampling.buckets import MAX_NAMES
from jobboard.operate.sampling.lease import LEASE_BOOK
from jobboard.operate.sampling.samples import MAX_ITEMS
from jobboard.testing import eventually

#: The moment at which the clock of these boards stands first: a whole day of UTC.
MIDNIGHT = 1_728_000.0


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with fetch(fresh_name(), "memory://") as board:
        yield board


@pytest.fixture
def clock(board: JobBoard) -> HandClock:
    clock = HandClock()
    clock.time = MIDNIGHT
    backend = client_of(board).backend
    assert isinstance(backend, MemoryBackend)
    backend.store.clock = clock
    return clock


@pytest.fixture
def sampler(board: JobBoard) -> Iterator[Sampler]:
    sampler = Sampler(board)
    yield sampler
    sampler.stop()


def another(board: JobBoard, patience: float = 3600.0) -> Sampler:
    return Sampler(board, patience=patience)


def known(sampler: Sampler) -> dict[str, Any]:
    """Return what a sampler knows without its thread."""
    assert sampler.newest is not None
    return sampler.newest


def test_one_sampler_looks_for_all_and_another_goes_on_when_it_dies(board: JobBoard) -> None:
    board.post("mail")
    first, second, third = another(board), another(board), another(board, patience=0.0)
    first.look()
    second.look()
    assert (first.is_holder, second.is_holder) == (True, False)
    assert known(second) == known(first)
    assert known(first)["totals"] == {"unclaimed": 1, "delayed": 0, "claimed": 0, "trashed": 0, "blocked": 0}
    # The first one saves nothing any more, for longer than the third has patience.
    third.look()
    assert third.is_holder
    # It comes back, and finds that it was late.
    board.post("mail")
    first.look()
    assert (first.is_holder, third.is_holder) == (False, True)
    third.look()
    first.look()
    assert known(first) == known(third)
    assert known(first)["totals"]["unclaimed"] == 2


def test_of_many_samplers_that_begin_at_once_one_looks(board: JobBoard) -> None:
    samplers = [another(board) for _ in range(8)]
    barrier = threading.Barrier(len(samplers))

    def look(sampler: Sampler) -> None:
        barrier.wait(20)
        sampler.look()

    threads = [threading.Thread(target=look, args=(sampler,)) for sampler in samplers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sum(sampler.is_holder for sampler in samplers) == 1
    for sampler in samplers:
        sampler.look()
    assert all(known(sampler)["verdict"] == "WELL" for sampler in samplers)


def test_a_sampler_that_stops_lets_another_go_on_at_once(board: JobBoard) -> None:
    first, second = another(board), another(board)
    assert first.status(20)["verdict"] == "WELL"
    second.look()
    assert not second.is_holder
    first.stop(20)
    second.look()
    assert second.is_holder


def test_a_hundred_readers_cost_the_store_nothing(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    board.post_many([Posting(name) for name in ("mail", "resize")])
    sampler = Sampler(board, interval=3600.0)
    sent = count_requests(board, monkeypatch)
    sampler.status(20)
    first = len(sent)
    assert 0 < first <= 20
    seen: list[int] = []

    def read() -> None:
        seen.append(sampler.status(20)["totals"]["unclaimed"] + sampler.minutes(0)[-1].total.waiting)

    readers = [threading.Thread(target=read) for _ in range(100)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(20)
    assert seen == [4] * 100
    assert len(sent) == first
    # The next look is one of 8 calls and one for each name, and the save of the lease.
    sampler.look()
    assert len(sent) - first == 8 + 2 + 1
    sampler.stop(20)


def test_minutes_and_ten_minutes_outlive_their_sampler(board: JobBoard, clock: HandClock) -> None:
    first = another(board)
    for minute in range(25):
        board.post("mail")
        for _ in range(3):
            first.look()
            clock.time += 20.0
        assert first.minutes(clock.time - 60)[-1].total.waiting == minute + 1
    # It dies without a word, in minute 25, which is lost with it.
    first.look()
    second = another(board, patience=0.0)
    second.look()
    assert second.is_holder
    at = [(bucket.at - MIDNIGHT, bucket.total.waiting) for bucket in second.minutes(0)]
    assert at == [(60.0 * minute, minute + 1) for minute in range(25)] + [(1500.0, 25)]
    tens = [(bucket.at - MIDNIGHT, bucket.total.waiting, bucket.total.posted) for bucket in second.ten_minutes(0)]
    assert [(at, waiting) for at, waiting, _ in tens] == [(0.0, 10), (600.0, 20)]
    # One that waits sees the same.
    third = another(board)
    third.look()
    assert [bucket.at for bucket in third.minutes(0)] == [bucket.at for bucket in first.minutes(0)][:-1]


def test_what_one_saves_last_and_another_first_of_a_minute_is_put_together(board: JobBoard, clock: HandClock) -> None:
    first, second = another(board), another(board)
    first.look()
    board.post_many([Posting("mail")] * 3)
    eventually(lambda: first._counts._total.posted == 3, 20)
    first.look()
    first.stop()
    second.look()
    assert second.is_holder
    board.post("mail")
    eventually(lambda: second._counts._total.posted == 1, 20)
    second.look()
    clock.time += 60.0
    second.look()
    (minute, present) = second.minutes(0)
    assert (minute.total.posted, minute.total.waiting) == (4, 4)
    assert (minute.names["mail"].posted, present.total.posted) == (4, 0)


def test_ten_minutes_that_nobody_could_save_in_time_are_saved_later(board: JobBoard, clock: HandClock) -> None:
    first = another(board)
    first.look()
    clock.time += 60.0
    first.look()
    clock.time += 3600.0
    second = another(board, patience=0.0)
    second.look()
    assert second.ten_minutes(0) == []
    clock.time += 60.0
    second.look()
    assert [bucket.at - MIDNIGHT for bucket in second.ten_minutes(0)] == [0.0]


def test_old_logbooks_are_removed(board: JobBoard, clock: HandClock) -> None:
    sampler = Sampler(board, days=2)
    for _ in range(3):
        sampler.look()
        clock.time += 60.0
    sampler.look()
    old = sampler._minutes.period(MIDNIGHT)
    assert len(board.load_book(old.uuid)) == 3
    clock.time += 86_400.0 + 3600.0
    for _ in range(2):
        sampler.look()
        clock.time += 60.0
    with pytest.raises(NotFound):
        board.load_book(old.uuid)
    assert old not in sampler._periods()
    # Neither in memory.
    assert all(bucket.at > MIDNIGHT + 3600.0 for bucket in sampler.minutes(0))


def test_what_others_have_damaged_is_left_out(board: JobBoard, clock: HandClock) -> None:
    first = another(board)
    for _ in range(3):
        first.look()
        clock.time += 60.0
    book = board.load_book(first._minutes.period(MIDNIGHT).uuid)
    book.entries = [
        *book.entries,
        {"at": "yesterday"},
        {**_plain_without_at(), "at": 0, "names": 3},
        {"at": 2**62, **_plain_without_at()},
        {"total": []},
    ]
    board.save_book(book)
    lease = board.load_book(LEASE_BOOK)
    lease.meta["books"] = [*lease.meta["books"], "no period", [60], [60, "x"], [7, 7], None]
    board.save_book(lease)
    second = another(board, patience=0.0)
    second.look()
    assert [bucket.at - MIDNIGHT for bucket in second.minutes(0)] == [0.0, 60.0, 180.0]
    # A newer program's books are left as they are.
    book.meta["format"] = 2
    board.save_book(book)
    clock.time += 60.0
    second.look()
    assert board.load_book(book.uuid).version == book.version


def _plain_without_at() -> dict[str, Any]:
    plain = Bucket(0).to_plain()
    return {field: value for field, value in plain.items() if field != "at"}


def test_a_status_in_a_lease_that_is_none_is_an_outage_and_no_crash(board: JobBoard) -> None:
    book = LogBook("x", LEASE_BOOK)
    book.meta = {"holder": "somebody", "status": {"verdict": "WELL"}}
    board.save_book(book)
    sampler = another(board)
    sampler.look()
    assert known(sampler)["verdict"] == "BAD"


def test_a_store_that_takes_no_logbook_can_be_looked_at(
    board: JobBoard, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BoardUnavailable("read-only")

    monkeypatch.setattr(client_of(board).backend.books, "save", refuse)
    sampler.look()
    assert known(sampler)["verdict"] == "WELL"
    assert (sampler.is_holder, sampler.looked_itself) == (False, True)


def test_an_absent_store_is_a_verdict(board: JobBoard, sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise BoardUnavailable("the store is gone")

    with monkeypatch.context() as patched:
        patched.setattr(client_of(board).backend.jobs, "stats", refuse)
        sampler.look()
        assert known(sampler)["findings"][0]["text"] == "the store is gone"
    sampler.look()
    assert known(sampler)["verdict"] == "WELL"


def test_many_names_take_bounded_room(board: JobBoard, sampler: Sampler) -> None:
    board.post_many([Posting(f"{number:03d}-{'n' * 200}") for number in range(3 * MAX_ITEMS)])
    board.post_many([Posting("much")] * 5)
    sampler.look()
    status = known(sampler)
    assert len(status["names"]) == len(status["findings"]) == MAX_ITEMS
    assert next(iter(status["names"])) == "much"
    assert status["left_out"] == {"names": 2 * MAX_ITEMS + 1, "findings": 2 * MAX_ITEMS + 1, "trash": 0}
    assert status["totals"]["unclaimed"] == 3 * MAX_ITEMS + 5
    (minute,) = sampler.minutes(0)
    assert len(minute.names) == MAX_NAMES
    assert minute.total.waiting == 3 * MAX_ITEMS + 5
    assert len(client_of(board).encode("book", minute.to_plain())) < 16_000


def test_a_thread_looks_again_and_again_until_it_is_stopped(board: JobBoard) -> None:
    sampler = Sampler(board, interval=0.01)
    sampler.start()
    sampler.start()
    board.post("mail")
    eventually(lambda: sampler.status(20)["totals"]["unclaimed"] == 1, 20)
    first = sampler._thread
    sampler.stop(20)
    assert first is not None
    assert not first.is_alive()
    sampler.start()
    board.post("mail")
    eventually(lambda: sampler.status(20)["totals"]["unclaimed"] == 2, 20)
    sampler.stop(20)
    sampler.stop()


def test_a_closed_board_is_not_opened_again() -> None:
    board = fetch(fresh_name(), "memory://")
    sampler = Sampler(board, interval=0.01)
    assert sampler.status(20)["verdict"] == "WELL"
    thread = sampler._thread
    board.close()
    assert thread is not None
    thread.join(20)
    assert not thread.is_alive()
    assert not board.connected
    assert sampler.status(20)["board"] == board.name
    sampler.stop(20)
    assert not board.connected
