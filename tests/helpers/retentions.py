"""Calls that take seconds for a record, or for a key that was declared, and what the board makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobboard import Handlers, Job, JobBoard, aio


def hundreds(seconds: float) -> int:
    return round(seconds / 100) * 100


def by_declared(way: str) -> Callable[..., Job]:
    """Post a job whose key's time was declared with its handler."""

    def post(board: JobBoard, *, key: str, key_for: Any) -> Job:
        handlers = Handlers()
        if way == "add":
            task = handlers.add("a", print, key_for=key_for)
        else:
            task = getattr(handlers, way)("a", key_for=key_for)(print)
        return task.post(board, {}, key=key)

    return post


def kept_for(board: JobBoard) -> int:
    """For how long the record of the job that ended last is kept."""
    store = board._backend.store
    return hundreds(max(store.retained)[0] - store.clock())


def claimed(board: JobBoard) -> Job:
    board.post("a")
    (job,) = board.claim_next("alice")
    return job


def consume(board: JobBoard, span: Any) -> int:
    board.consume(claimed(board), "alice", retention=span)
    return kept_for(board)


def consume_many(board: JobBoard, span: Any) -> int:
    board.consume_many([claimed(board)], "alice", retentions=[span])
    return kept_for(board)


async def aio_consume(board: aio.AsyncJobBoard, span: Any) -> int:
    await board.consume(claimed(board._sync).uuid, "alice", retention=span)
    return kept_for(board._sync)


async def aio_consume_many(board: aio.AsyncJobBoard, span: Any) -> int:
    job = claimed(board._sync)
    await board.consume_many([job.uuid], "alice", retentions=[span])
    return kept_for(board._sync)
