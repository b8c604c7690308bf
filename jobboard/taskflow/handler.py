"""TaskFlow's flows as handlers of a :class:`jobboard.Conductor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from taskflow import engines, states
from taskflow import exceptions as taskflow_errors
from taskflow.persistence import models

from jobboard.conductor import Cancelled, RunningJob
from jobboard.errors import ClaimLost
from jobboard.taskflow.persistence import ShelfBackend
from jobboard.taskflow.shelf import Shelf


def flow_handler(
    factory: Callable[[], Any], *, result: str | None = None, engine: str = "serial", **engine_options: Any
) -> Callable[[RunningJob], Any]:
    """Return a handler that runs a flow, and goes on where an earlier owner of the job has stopped.

    The job's details are the flow's inputs (TaskFlow's ``store``). What its tasks have done is kept in a logbook that
    belongs to the job, goes with its record, and is saved under its claim: an engine that comes late is stopped at its
    next change. A flow that fails is reverted, and its job has failed: it is tried again as the handler says, from the
    beginning. A cancel suspends the flow before its next task; the tasks that are done are not reverted.

    Handlers run in threads of the conductor: not in the executor ``process``.

    :param factory: makes the flow; for one job always the same.
    :param result: which of the flow's results is the job's; plain data. None for none.
    :param engine: TaskFlow's kind of engine, with its options.
    """

    def run(job: RunningJob) -> Any:
        backend = ShelfBackend({}, Shelf(job.board, lambda uuids: job, owned=True))
        running = engines.load(
            factory(),
            flow_detail=_flow_of(job, backend),
            store=job.details,
            backend=backend,
            engine=engine,
            **engine_options,
        )
        is_suspended = False
        with _closed(running.run_iter()) as steps:
            for _ in steps:
                if (job.lost or job.cancelled) and not is_suspended:
                    running.suspend()
                    is_suspended = True
        if is_suspended and running.storage.get_flow_state() != states.SUCCESS:
            raise Cancelled() if job.cancelled else ClaimLost(f"the claim of job {job.uuid} is lost")
        return None if result is None else running.storage.fetch(result)

    return run


@contextmanager
def _closed(steps: Any) -> Iterator[Any]:
    """End an engine also if a step fails; what it saves then is refused again, which is no news."""
    try:
        yield steps
    finally:
        with suppress(taskflow_errors.TaskFlowException):
            steps.close()


def _flow_of(job: RunningJob, backend: ShelfBackend) -> Any:
    """Return the flow detail of a job: one in a logbook of the job's uuid."""
    connection = backend.get_connection()
    try:
        book = connection.get_logbook(job.uuid)
    except taskflow_errors.NotFound:
        book = models.LogBook(job.name, job.uuid)
        book.add(models.FlowDetail(job.name, job.uuid))
        connection.save_logbook(book)
    return next(iter(book))
