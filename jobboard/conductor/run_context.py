"""What the context of a run says of it: which job the calling thread or asyncio task runs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from jobboard.conductor.log import facts_of

if TYPE_CHECKING:
    from jobboard.conductor.async_running_job import AsyncRunningJob
    from jobboard.conductor.running_job import RunningJob


class _Run(NamedTuple):
    """What a handler is called for: jobs of one name; ``job`` is None in a batch handler, which has several."""

    name: str
    job: RunningJob | AsyncRunningJob | None


#: Each run has a context of its own, so nobody has to reset it.
_run: ContextVar[_Run | None] = ContextVar("jobboard_run", default=None)


def current_job() -> RunningJob | AsyncRunningJob | None:
    """Return the job whose handler calls this, as that handler got it; None outside of one, and in a batch handler.

    What the handler awaits, its asyncio tasks and ``asyncio.to_thread`` have the job too. A thread that it starts by
    itself does not, unless it runs in a copy of the context: ``contextvars.copy_context().run``.
    """
    run = _run.get()
    return None if run is None else run.job


def begin_run(job: RunningJob | AsyncRunningJob) -> None:
    """Note in the context of a run which job it is of."""
    _run.set(_Run(job.name, job))


def begin_batch(name: str) -> None:
    """Note in the context of a batch handler's call which name its jobs have."""
    _run.set(_Run(name, None))


def facts_of_run() -> dict[str, Any]:
    """Return what log lines say of the caller's job: of a batch only the name of its jobs, outside of a run nothing."""
    run = _run.get()
    if run is None:
        return {}
    return {"job": run.name} if run.job is None else facts_of(run.job)
