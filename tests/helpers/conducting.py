"""A conductor for the length of a block, and a board that it can lose."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jobboard import Conductor, Handlers, Job, JobBoard, JobState
from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.testing import LossyBackend, eventually


@contextmanager
def conducting(board: JobBoard, handlers: Handlers, executor: str = "thread", **options: Any) -> Iterator[Conductor]:
    """Start a conductor, and stop it hard in the end if it still works."""
    conductor = Conductor("test", board, handlers, executor=executor, **options)
    conductor.start()
    try:
        yield conductor
    finally:
        conductor.stop(drain=False)


@contextmanager
def lossy_board(patience: float = 0.05) -> Iterator[tuple[JobBoard, LossyBackend]]:
    """Open a memory board whose requests can be made to fail."""
    backend = LossyBackend(MemoryBackend(uuid.uuid4().hex, Address("memory")))
    with JobBoard("work", backend, patience=patience) as board:
        yield board, backend


def state_of(board: JobBoard, job: Job) -> JobState:
    return board.get(job.uuid).record.state


def until_begun(conductor: Conductor, job: Job) -> None:
    """Wait until the job's handler runs. A job is claimed a moment before; what loses it by then is never run."""
    run = conductor._run
    assert run is not None
    eventually(lambda: any(each.job == job and each.began_at is not None for each in run._renewer.held()))
