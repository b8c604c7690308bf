"""The FIFOs in which claim requests stand beside an SQLite file, and what may be wrong with them."""

from __future__ import annotations

import errno
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgpack
import pytest
from helpers.sql_seam import opened, post
from helpers.sqlite_waiting import LONG, armed, read, requests, uuids_of

from jobboard import JobState
from jobboard.backends.sql import SqliteBackend
from jobboard.backends.sql.sqlite import waiting
from jobboard.backends.sql.sqlite.claim_requests import ClaimRequests
from jobboard.errors import BoardUnavailable
from jobboard.testing import eventually

pytest_plugins = ("helpers.sqlite_fixtures",)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere everybody claims by himself")


@pytest.mark.parametrize(
    "garbage", [b"\xc1", msgpack.packb(7), msgpack.packb([1, ["resize"]]), msgpack.packb([1, [[]], "a", "b", 1, 9e9])]
)
def test_garbage_fails_no_post(backend: SqliteBackend, poster: SqliteBackend, folder: Path, garbage: bytes) -> None:
    with armed(backend) as waiter:
        assert waiter.claimed()[0] == []
        for fifo in folder.iterdir():
            with fifo.open("wb", buffering=0) as writer:
                writer.write(garbage)
        job = post(poster)
        assert read(poster, job).state is JobState.UNCLAIMED
        waiter.wait(60)
        assert waiter.ready_in() == 0.0


def test_nothing_is_asked_for_unless_it_is_told_to(backend: SqliteBackend, folder: Path) -> None:
    with backend.waiter(None) as waiter:
        assert waiter.ready_in() is None
        waiter.claim_ahead("short", waiting.MIN_EXPIRY / 2)
        assert waiter.ready_in() is None
        assert not folder.exists()


def test_nothing_is_left_behind(backend: SqliteBackend, folder: Path) -> None:
    with armed(backend), armed(backend):
        assert len(list(folder.iterdir())) == 4
    assert not folder.exists()


def _open_files() -> list[str]:
    """Return the paths of what this process has open; its numbers are given to other files again."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return found


def test_one_who_gets_one_fifo_of_two_leaves_nothing_open_and_nothing_behind(
    backend: SqliteBackend, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, opened = os.open, list[int]()

    def open_one(path: str, flags: int, *more: int) -> int:
        if str(path).startswith(f"{folder}/"):
            if opened:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            opened.append(opening(path, flags, *more))
            return opened[0]
        return opening(path, flags, *more)

    with backend.waiter(None) as waiter:
        monkeypatch.setattr(os, "open", open_one)
        waiter.claim_ahead("idle", LONG)
        monkeypatch.undo()
        assert not [file for file in _open_files() if file.startswith(f"{folder}/")]
        assert waiter.ready_in() is None
    with armed(backend):
        pass
    assert not folder.exists()


def test_where_there_can_be_no_fifos_everybody_claims_by_himself(
    backend: SqliteBackend, poster: SqliteBackend, folder: Path
) -> None:
    folder.write_text("of somebody else")
    with armed(backend) as waiter:
        job = post(poster)
        while waiter.ready_in() != 0.0:
            waiter.wait(60)
        assert (read(poster, job).state, uuids_of(waiter)) == (JobState.UNCLAIMED, [])
    assert folder.read_text() == "of somebody else"


def test_a_stop_and_a_close_end_the_wait(backend: SqliteBackend) -> None:
    with armed(backend) as waiter:
        waiter.interrupt()
        waiter.wait(None)
        threading.Timer(0.01, backend.close).start()
        with pytest.raises(BoardUnavailable):
            while True:
                waiter.wait(None)


@pytest.mark.parametrize(("mode", "used"), [(0o600, 0o600), (0o664, 0o660)])
def test_who_may_write_to_the_file_may_answer(path: Path, folder: Path, mode: int, used: int) -> None:
    with opened(path, mode=mode) as backend, armed(backend):
        found = {fifo.stat().st_mode & 0o777 for fifo in folder.iterdir()}
        assert (found, folder.stat().st_mode & 0o777) == ({used}, used | (used & 0o444) >> 2)


def test_a_request_that_is_put_back_while_it_is_withdrawn_does_not_stand(
    backend: SqliteBackend, poster: SqliteBackend, threads: ThreadPoolExecutor
) -> None:
    with armed(backend) as waiter:
        with poster.database.write():
            [taken] = ClaimRequests(backend.database.path).take()
            asked = threads.submit(uuids_of, waiter)
            eventually(backend.database.process_notifier.writing.locked)
            taken.put_back()
        assert asked.result(60) == []
        assert requests(poster) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_folder_of_somebody_else_is_left_alone(
    backend: SqliteBackend, poster: SqliteBackend, folder: Path, is_waiting: bool
) -> None:
    """In a directory like /tmp anybody could make it, and ask for jobs there."""
    folder.mkdir(0o777)
    if is_waiting:
        with armed(backend):
            os.chown(folder, 12345, 12345)
            job = post(poster)
            assert read(poster, job).token == 0
    else:
        os.chown(folder, 12345, 12345)
        with armed(backend):
            assert list(folder.iterdir()) == []
