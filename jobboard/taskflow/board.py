"""TaskFlow's face of a board: what ``taskflow.jobs.backends.fetch`` returns for ``board: jobboard``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from taskflow import exceptions as taskflow_errors
from taskflow import logging
from taskflow.jobs import base

from jobboard.backends.base import Waiter
from jobboard.board import client_of
from jobboard.client.keepers import Tokens
from jobboard.errors import ClaimLost, NotFound, UnclaimableJob
from jobboard.fetching import fetch
from jobboard.heartbeat import Heartbeat
from jobboard.job import Job
from jobboard.logbook import BookRef
from jobboard.states import LIVE
from jobboard.taskflow.configuration import configured, naming_keys
from jobboard.taskflow.errors import translated
from jobboard.taskflow.holds import HOLDS
from jobboard.taskflow.job import TaskFlowJob, priority_of
from jobboard.taskflow.keeper import Keeper
from jobboard.taskflow.notifying import BoardNotifier
from jobboard.taskflow.shown_conductor import ShownConductor
from jobboard.types import Seconds
from jobboard.validation import check_expiry, check_timeout, option_in_seconds

LOG = logging.getLogger(__name__)

#: Seconds that a claim lasts unless it is renewed.
_EXPIRY = 30.0
#: Seconds between two registrations of a participant.
_HEARTBEAT = 15.0

#: TaskFlow lets any of its boards in one process end or extend what another one there has claimed.
_TOKENS = Tokens()


class TaskFlowBoard(base.NotifyingJobBoard):  # type: ignore[misc]
    """A job board of TaskFlow over a :class:`jobboard.JobBoard`, which is its attribute :attr:`board`.

    A claim without an expiry is renewed until it ends, for as long as this process lives and this board is open. One
    with an expiry ends then, unless ``job.extend_expiry`` puts that off. Both are fenced.

    :param name: what people call it; no part of its identity, which is the ``namespace`` or the ``path`` of ``conf``.
    :param conf: ``{"board": "jobboard", "uri": "redis://..."}``, or that of TaskFlow's own driver with
        ``"board": "jobboard+redis"`` (``+zookeeper``, ``+etcd``); further options as for :func:`jobboard.fetch`.
    :param client: a client of the store that the program has already, where :func:`jobboard.fetch` takes one.
    :param persistence: where the jobs' logbooks are.
    :param emit_notifications: False calls no listener of :attr:`notifier`.
    :raises ValueError: the configuration names no store, or has a bad value.
    """

    def __init__(
        self,
        name: str,
        conf: Mapping[str, Any],
        client: Any = None,
        persistence: Any = None,
        emit_notifications: bool = True,
    ) -> None:
        super().__init__(name, conf)
        wanted = configured(conf if client is None else {**conf, "client": client})
        self._expiry = check_expiry(option_in_seconds(wanted.options.pop("expiry", _EXPIRY)))
        with naming_keys(wanted):
            self.board = fetch(wanted.name, wanted.uri, expiry=self._expiry, **wanted.options)
        client_of(self.board).tokens = _TOKENS
        self._place = wanted.place
        self._persistence = persistence
        self._keeper = Keeper(self.board, self._expiry)
        self._conductors: dict[str, ShownConductor] = {}
        self.notifier = BoardNotifier(self, bool(emit_notifications))

    # -- opened and closed -----------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self.board.connected

    def connect(self, timeout: Seconds | None = None) -> None:
        """Open the board; nothing happens if it is open.

        :param timeout: seconds; None for 10.
        """
        with translated():
            self.board.connect(10.0 if timeout is None else timeout)
        self.notifier.board_opened()

    def close(self) -> None:
        """Close the board; the claims that it renews expire. It can be connected again."""
        self.notifier.board_closes()
        if self.board.connected:
            self._keeper.close()
            self._conductors.clear()
            self._keeper = Keeper(self.board, self._expiry)
        self.board.close()

    # -- jobs ------------------------------------------------------------------------------------------------------

    @property
    def job_count(self) -> int:
        with translated():
            return self.board.job_count

    def post(
        self,
        name: str,
        book: Any = None,
        details: dict[str, Any] | None = None,
        priority: Any = base.JobPriority.NORMAL,
        *,
        uuid: str | None = None,
    ) -> TaskFlowJob:
        """Post a job that points at a logbook of the persistence backend, if there is one.

        :param uuid: the job's; posting the same one twice is one job. Without it the job gets a new one.
        :raises taskflow.exceptions.JobFailure: the details can't be stored, or the store can't be reached.
        """
        wanted = priority_of(priority)
        with translated():
            job = self.board.post(
                name, details, book=None if book is None else _reference_to(book), priority=wanted, uuid=uuid
            )
        return self.job_of(job, book)

    def iterjobs(self, only_unclaimed: bool = False, ensure_fresh: bool = False) -> JobIterator:
        """Iterate over jobs in the order in which they are claimed, a page a request and none per job."""
        return JobIterator(self, self._fetch_jobs, only_unclaimed=only_unclaimed, ensure_fresh=ensure_fresh)

    def wait(self, timeout: Seconds | None = None, *_delays: Any, **_more_delays: Any) -> JobIterator:
        """Block until a job can be claimed; the delays of TaskFlow's polling are ignored.

        :param timeout: seconds; None to wait without end.
        :returns: an iterator over the jobs that can be claimed, best first.
        :raises taskflow.exceptions.NotFound: there was none in time.
        """
        with translated():
            jobs = self.board.wait(check_timeout(timeout))
            first = next(jobs, None)
        if first is None:
            raise taskflow_errors.NotFound(f"no job could be claimed on board {self.name!r} within {timeout} seconds")
        return JobIterator(self, lambda **_: self._jobs_of(chain([first], jobs)), only_unclaimed=True)

    def find_owner(self, job: TaskFlowJob) -> str | None:
        """Return who has claimed the job, or None; also if it is gone."""
        with translated():
            try:
                return self.board.find_owner(job.uuid)
            except NotFound:
                return None

    def claim(self, job: TaskFlowJob, who: str, expiry: Seconds | None = None) -> None:
        """Claim one job.

        :param expiry: seconds after which the claim ends unless extended; None to renew it until it ends.
        :raises taskflow.exceptions.UnclaimableJob: it is claimed, also by the same owner, or can't be claimed yet; or
            an operator has told this conductor to claim no more.
        :raises taskflow.exceptions.NotFound: it is not on the board.
        """
        _check_who(who)
        if self._is_quiet(who):
            raise taskflow_errors.UnclaimableJob(f"{who} is to claim no more, as an operator said")
        with translated():
            try:
                self.board.claim(job.job, who, self._expiry if expiry is None else check_expiry(expiry))
            except UnclaimableJob as error:
                if error.state is not None and error.state not in LIVE:
                    raise taskflow_errors.NotFound(f"job {job.uuid} is not on the board any more") from error
                raise taskflow_errors.UnclaimableJob(str(error)) from error
        HOLDS.take(self._place, job.job)
        if expiry is None:
            self._keeper.keep(job, who)

    def claim_next(self, who: str) -> TaskFlowJob | None:
        """Claim the best job in one request, and renew the claim until it ends.

        :returns: None if there is none to claim, or an operator has told this conductor to claim no more.
        """
        _check_who(who)
        if self._is_quiet(who):
            return None
        with translated():
            found = self.board.claim_next(who, expiry=self._expiry)
        if not found:
            return None
        job = self.job_of(found[0])
        HOLDS.take(self._place, job.job)
        self._keeper.keep(job, who)
        return job

    def consume(self, job: TaskFlowJob, who: str) -> None:
        """Complete a job for good.

        :raises taskflow.exceptions.NotFound: it is not on the board, or nobody has claimed it.
        :raises taskflow.exceptions.JobFailure: the claim is somebody else's by now; nothing was changed.
        """
        self._end("consume", job, who, lambda: self.board.consume(job.job, who))

    def abandon(self, job: TaskFlowJob, who: str) -> None:
        """Return a job to the board; errors as for :meth:`consume`."""
        self._end("abandon", job, who, lambda: self.board.abandon(job.job, who))

    def trash(self, job: TaskFlowJob, who: str) -> None:
        """Move a job to the trash, where operators see it and can restore it; errors as for :meth:`consume`."""
        self._end("trash", job, who, lambda: self.board.trash(job.job, who, reason=job.refusal))

    def register_entity(self, entity: Any) -> None:
        """Show a participant as alive for as long as this board is open.

        A conductor is shown under the name of its claims, with what it runs. If an operator tells it to be quiet,
        nothing can be claimed under its name.
        """
        if entity.kind == "conductor":
            conductor = ShownConductor(self.board, entity, self._keeper)
            self._conductors[conductor.who] = conductor
            name, heartbeat = conductor.who, conductor.heartbeat
        else:
            name, metadata = f"{entity.kind} {entity.name}", dict(entity.metadata)
            heartbeat = Heartbeat(self.board, entity.kind, entity.name, lambda: metadata, _HEARTBEAT)
        with translated():
            self._keeper.show(name, heartbeat)

    # -- for the rest of this package ------------------------------------------------------------------------------

    def job_of(self, job: Job, book: Any = None) -> TaskFlowJob:
        """Return a board's job as TaskFlow's."""
        return TaskFlowJob(self, job, self._persistence, book)

    def conductor(self, who: str) -> ShownConductor:
        """Return a conductor that has been registered."""
        return self._conductors[who]

    def conductor_ended(self, who: str) -> None:
        """It runs no more."""
        if self._conductors.pop(who, None) is not None:
            self._keeper.hide(who)

    def _is_quiet(self, who: str) -> bool:
        conductor = self._conductors.get(who)
        return conductor is not None and conductor.is_quiet

    def waiter(self) -> contextlib.AbstractContextManager[Waiter]:
        """Return who waits for any claimable job."""
        return client_of(self.board).waiter(None)

    def _fetch_jobs(self, only_unclaimed: bool = False, ensure_fresh: bool = False) -> Iterator[TaskFlowJob]:
        with translated():
            jobs = self.board.iterjobs(only_unclaimed, ensure_fresh)
        return self._jobs_of(jobs)

    def _jobs_of(self, jobs: Iterator[Job]) -> Iterator[TaskFlowJob]:
        with translated():
            for job in jobs:
                yield self.job_of(job)

    def _end(self, what: str, job: TaskFlowJob, who: str, end: Callable[[], object]) -> None:
        _check_who(who)
        # First, since a claim whose end could not be sent must not last for ever.
        self._keeper.drop(job.uuid, who)
        with translated():
            try:
                end()
            except ClaimLost as lost:
                raise self._refusal(what, job, who) from lost
        HOLDS.give_back(job.job)

    def _refusal(self, what: str, job: TaskFlowJob, who: str) -> Exception:
        """Say as TaskFlow's boards do why a claim could not be ended."""
        owner = self.find_owner(job)
        if owner is None:
            error, why = taskflow_errors.NotFound, "it is not on the board, or nobody has claimed it"
        else:
            error, why = taskflow_errors.JobFailure, f"it is claimed by {owner}, not under this claim of {who}"
        refusal: Exception = error(f"can't {what} job {job.uuid}: {why}")
        return refusal


class JobIterator(base.JobBoardIterator):  # type: ignore[misc]
    """TaskFlow's iterator over a board. What it yields was in the wanted state when its page was read.

    ``only_unclaimed`` and ``ensure_fresh`` may be changed until the first job is asked for.
    """

    def __init__(
        self,
        board: TaskFlowBoard,
        fetch_jobs: Callable[..., Iterator[TaskFlowJob]],
        only_unclaimed: bool = False,
        ensure_fresh: bool = False,
    ) -> None:
        super().__init__(board, LOG, only_unclaimed=only_unclaimed, ensure_fresh=ensure_fresh)
        self._fetch_jobs = fetch_jobs
        self._found: Iterator[TaskFlowJob] | None = None

    def __next__(self) -> TaskFlowJob:
        if self._found is None:
            self._found = self._fetch_jobs(only_unclaimed=self.only_unclaimed, ensure_fresh=self.ensure_fresh)
        return next(self._found)


def _check_who(who: object) -> None:
    if not isinstance(who, str):
        raise TypeError("Job applicant must be a string type")
    if not who:
        raise ValueError("Job applicant must be non-empty")


def _reference_to(book: Any) -> BookRef:
    """Return what a job keeps of a logbook that lives in a persistence backend."""
    return BookRef("taskflow", "taskflow.persistence", book.name, book.uuid)
