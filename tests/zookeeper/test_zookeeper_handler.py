"""What the board's own kazoo client waits by, and which thread calls a watch."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator

import pytest
from kazoo.protocol.states import Callback

from jobboard.backends.zookeeper.handler import Handler, runs_at_once

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def test_it_tells_which_sockets_are_ready(pair: Pair) -> None:
    near, far = pair
    handler = Handler()
    assert handler.select([near], [], [], 0) == ([], [], [])
    assert handler.select([], [near], [], 5) == ([], [near], [])
    far.send(b"x")
    assert handler.select([near, far], [], [], None) == ([near], [], [])


def test_who_is_hung_up_on_is_ready_to_read(pair: Pair) -> None:
    near, far = pair
    far.close()
    assert Handler().select([near], [], [], 5) == ([near], [], [])
    assert near.recv(1) == b""


def test_a_closed_socket_is_an_error_like_kazoos(pair: Pair) -> None:
    near, _ = pair
    near.close()
    with pytest.raises(ValueError, match="file descriptor"):
        Handler().select([near], [], [], 0)


def test_only_marked_watches_are_called_at_once() -> None:
    called: queue.Queue[threading.Thread] = queue.Queue()
    handler = Handler()
    handler.start()
    try:
        handler.dispatch_callback(Callback("watch", lambda: called.put(threading.current_thread()), ()))
        assert called.get(timeout=10) is not threading.current_thread()
        at_once = runs_at_once(lambda: called.put(threading.current_thread()))
        handler.dispatch_callback(Callback("watch", at_once, ()))
        assert called.get(timeout=10) is threading.current_thread()
    finally:
        handler.stop()


def test_a_fault_in_a_watch_does_not_reach_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    Handler().dispatch_callback(Callback("watch", runs_at_once(lambda: 1 / 0), ()))
    assert [line.message for line in caplog.records] == ["a watch met a fault"]
