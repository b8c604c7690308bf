"""Jobs as pages of Django show them: a line for each, with a link to its page in the console."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from jobboard.board import JobBoard
from jobboard.contrib.django.backend import JobBoardBackend
from jobboard.contrib.django.compat import task_backends
from jobboard.contrib.django.names import job_names, path_of
from jobboard.errors import NotFound
from jobboard.graph.blocked import waits_for
from jobboard.job import Job, row_of
from jobboard.operate.paging import JobsPage, page_of
from jobboard.operate.selecting import Selection
from jobboard.states import LIVE, JobState

#: Where the console has the board: a URL, or one for each backend by its alias.
SETTING = "JOBBOARD_CONSOLE_URL"
#: Jobs on a page, and how many are read for one at most.
PAGE, MAX_READ = 50, 1000
#: How many of an object's jobs that ended are shown.
_MAX_ENDED = 10


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job, without its details. ``url`` is None where the settings have no console.

    ``waits_for`` is ``parents``, ``signal approved`` or the like; empty if nothing blocks the job.
    """

    uuid: str
    url: str | None
    task: str
    name: str
    state: str
    waits_for: str
    lane: str
    key: str
    attempts: int
    owner: str
    created_on: datetime
    run_at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class JobLines:
    """Some lines; ``next`` is where those behind them begin, or None."""

    lines: list[JobLine]
    next: str | None = None


def board_backends() -> list[str]:
    """Return the aliases of the backends that are boards."""
    return [alias for alias in task_backends if isinstance(task_backends[alias], JobBoardBackend)]


def listed_jobs(
    alias: str, state: JobState | None = None, task: str | None = None, key: str | None = None, after: str | None = None
) -> JobLines:
    """Return a page of jobs in claim order: at most 50, of at most 1,000 that are read.

    :param alias: of a backend in ``TASKS``.
    :param state: None: those on the board.
    :param task: its path, or another name of jobs.
    :param key: how their keys begin.
    :param after: the ``next`` of another page.
    :raises ValueError: there is no such place.
    :raises BoardUnavailable: the store can't be reached.
    """
    backend = JobBoardBackend.checked(task_backends[alias])
    names = None if task is None else names_of(backend, [task])
    selection = Selection(states=LIVE if state is None else {state}, names=names, key_prefix=key)
    page: JobsPage = page_of(backend.site.board(), selection, after, PAGE, MAX_READ)
    return JobLines([_line(alias, job) for job in page.jobs], page.next)


def jobs_of_key(alias: str, tasks: Iterable[Any], key: str) -> JobLines:
    """Return the jobs of some tasks that have a key: the live ones, and up to ten that ended.

    It takes one request for each name of a job, and reads at most 1,000 jobs that ended.

    :param tasks: or their paths.
    :raises BoardUnavailable: the store can't be reached.
    """
    backend = JobBoardBackend.checked(task_backends[alias])
    board, names = backend.site.board(), names_of(backend, tasks)
    found = _live(board, names, key)
    ended = Selection(states={JobState.TRASHED, JobState.COMPLETE}, names=names, key=key)
    found += page_of(board, ended, None, _MAX_ENDED, MAX_READ).jobs
    return JobLines([_line(alias, job) for job in found])


def _live(board: JobBoard, names: Iterable[str], key: str) -> list[Job]:
    found = []
    for name in names:
        try:
            found.append(board.find(name, key))
        except NotFound:
            continue
    return found


def names_of(backend: JobBoardBackend, tasks: Iterable[Any]) -> list[str]:
    """Return the names of the jobs of tasks, given as such or by their paths; of what is no task here, its own."""
    there = backend.tasks.tasks()
    names: list[str] = []
    for task in tasks:
        path = task if isinstance(task, str) else task.module_path
        known = there.get(path)
        names += [path] if known is None else job_names(known, backend.queues, backend.queues)
    return names


def console_url(alias: str, uuid: str) -> str | None:
    """Return the address of a job's page in the console; None if the settings have none.

    :raises ImproperlyConfigured: the setting is neither a URL nor a dict of them.
    """
    setting = getattr(settings, SETTING, None)
    base = setting.get(alias) if isinstance(setting, Mapping) else setting
    if base is None:
        return None
    if not isinstance(base, str):
        raise ImproperlyConfigured(f"{SETTING} must be a URL, or a dict alias -> URL, not {type(base).__name__}")
    return f"{base.rstrip('/')}/jobs/{uuid}"


def _line(alias: str, job: Job) -> JobLine:
    record = job.record
    return JobLine(
        uuid=job.uuid,
        url=console_url(alias, job.uuid),
        task=path_of(job.name),
        name=job.name,
        state=str(record.state),
        waits_for=waits_for(row_of(job)) or "",
        lane=job.lane or "",
        key=job.key or "",
        attempts=record.attempts,
        owner=record.owner or "",
        created_on=job.created_on,
        run_at=record.run_at,
        reason=record.reason or "",
    )
