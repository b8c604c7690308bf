"""A child that is forked at any moment of its parent's connect and close can use the same board, on every store."""

from __future__ import annotations

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.durable_stores import STORES, running

from jobboard import JobBoard, fetch

pytestmark = pytest.mark.in_turn(2)

_FORKS = 20
#: Seconds after which a child that is stuck ends.
_PATIENCE = 20


@pytest.fixture(params=STORES)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with running(request.param, tmp_path) as store:
        yield store.uri


def fork_and_post(board: JobBoard) -> int:
    """Return the child's process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    signal.alarm(_PATIENCE)
    try:
        board.connect()
        board.post("of a child")
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def test_a_child_of_an_open_board_can_open_it_anew_and_its_parent_goes_on(uri: str) -> None:
    with fetch("forks", uri) as board:
        ends = [os.waitpid(fork_and_post(board), 0)[1] for _ in range(2)]
        board.post("of the parent")
        assert (ends, board.job_count) == ([0, 0], 3)


def test_a_child_forked_while_a_thread_connects_and_closes_can_post(uri: str) -> None:
    board, is_over = fetch("forks", uri), threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            board.connect()
            board.close()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        ends = [os.waitpid(fork_and_post(board), 0)[1] for _ in range(_FORKS)]
    finally:
        is_over.set()
        thread.join()
    assert ends == [0] * _FORKS
    with board:
        assert board.job_count == _FORKS
