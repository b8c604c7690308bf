"""The thread of an etcd board that renews its leases."""

from __future__ import annotations

import threading

import pytest

from jobboard.backends.etcd.worker import Worker


def test_a_thread_that_could_not_be_started_is_started_for_the_next_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker, first, second = Worker(), threading.Event(), threading.Event()
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="can't start"):
        patch.setattr(threading.Thread, "start", refuse)
        worker.soon(first.set)
    worker.soon(second.set)
    assert first.wait(30)
    assert second.wait(30)
    worker.close(30)
