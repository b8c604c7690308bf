"""What a handler gets: its job under its claim, the same in every executor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol

from jobboard.board import JobBoard
from jobboard.conductor.job_facts import JobFacts, JobSnapshot
from jobboard.conductor.outcome import Broken, fixed_postings
from jobboard.conductor.steps import StepContext, Steps
from jobboard.errors import BoardUnavailable, InvalidPosting
from jobboard.family import Parent
from jobboard.job import JobOrUuid, Posting, check_not_elsewhere
from jobboard.logbook import LogBook
from jobboard.then import check_postings
from jobboard.types import Seconds

if TYPE_CHECKING:
    # Type checkers know it without the package. The default lets RunningJob stand alone in annotations.
    from typing_extensions import TypeVar

    Made = TypeVar("Made", default=Any)
else:
    from typing import TypeVar

    Made = TypeVar("Made")

P = ParamSpec("P")
T = TypeVar("T")

_MAX_PROGRESS_TEXT = 500
_UNWRITTEN = object()
#: Stands for the resources of handlers without a lifespan.
NOT_MADE = object()


class CheckpointNotStored(InvalidPosting, Broken):
    """A checkpoint can't be stored, such as one that is too large. The job goes to the trash: a repeat would, too."""


class JobContext(StepContext, Protocol):
    """What a running job asks of its conductor.

    Nothing that lives on after the handler refers to the running job: it refers to its context, and what is part of a
    circle of references, such as the details of every job, stays in memory until a full garbage collection.
    """

    cancelled: bool

    @property
    def board(self) -> JobBoard: ...
    @property
    def resources(self) -> Any: ...
    def checkpoint(self, state: Any) -> None: ...
    def report(self, report: dict[str, Any]) -> None: ...
    def expect_end(self, is_expected: bool) -> None: ...
    def complete(self, result: Any, postings: Sequence[Posting], connection: Any, board: JobBoard | None) -> None: ...
    def load_book(self, uuid: str) -> LogBook: ...
    def save_book(self, book: LogBook) -> None: ...


class RunningJob(JobFacts, Generic[Made]):
    """A claimed job as its handler sees it; its claim is renewed for as long as the handler runs.

    ``RunningJob[Pools]`` tells type checkers that its ``resources`` are of that type.

    The facts, such as ``details``, ``key``, ``attempts`` and ``record``, are as they were when the job was claimed.
    """

    def __init__(self, snapshot: JobSnapshot, context: JobContext) -> None:
        self._snapshot = snapshot
        self._context = context
        self._checkpoint: Any = _UNWRITTEN
        #: Made when the handler asks for its first step.
        self._steps: Steps | None = None

    @property
    def lost(self) -> bool:
        """Whether the claim is lost: stop, since another owner may run the job now."""
        return self._context.lost

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for the job's cancel: raise :class:`~jobboard.Cancelled`, or finish."""
        return self._context.cancelled

    @property
    def board(self) -> JobBoard:
        """The board that the job is on, for example to post a further job.

        Its ``close``, and the end of a ``with`` block, do nothing: the conductor goes on using it.

        :raises RuntimeError: in a worker process, which has no board.
        """
        return self._context.board

    @property
    def resources(self) -> Made:
        """What the lifespan of its handler's collection has made in this process (:meth:`Handlers.lifespan`).

        :raises RuntimeError: there is no lifespan; or it is async, and this handler does not run on its event loop.
        """
        made = self._context.resources
        if made is NOT_MADE:
            raise RuntimeError(
                f"the handler for {self.name!r} has no resources here: its Handlers have no lifespan, or one that is "
                'async, whose resources only async handlers of the executor "asyncio" have'
            )
        return made  # type: ignore[no-any-return]

    @property
    def checkpoint(self) -> Any:
        """The last checkpoint, which this run or an earlier owner wrote; None if there is none."""
        return self.record.checkpoint if self._checkpoint is _UNWRITTEN else self._checkpoint

    def checkpoint_state(self, state: Any) -> None:
        """Write a checkpoint; it is durable and fenced, and the next owner reads it.

        :param state: plain data, of at most 512 KiB once encoded, unless the board has another ``largest_details``.
        :raises ClaimLost: the claim does not hold; nothing was written.
        :raises CheckpointNotStored: the state can't be stored; nothing was written. It is an :class:`InvalidPosting`,
            and a handler that does not catch it sends its job to the trash.
        :raises BoardUnavailable: the store did not answer.
        """
        try:
            self._context.checkpoint(state)
        except InvalidPosting as error:
            raise CheckpointNotStored(str(error), path=error.path) from None
        self._checkpoint = state

    def parents(self) -> Iterator[Parent]:
        """Iterate over the jobs that this one has waited for, with their results; as :meth:`Job.parents` does.

        :raises RuntimeError: in a worker process, which has no board.
        """
        return self.board.get(self.uuid).parents()

    def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function once for this job, however often its handler runs: later runs get what it returned.

        Its result is durable, under the job's claim, before this returns. If the process dies after the effect of the
        function and before that, the next run calls it again. What it raises is raised here, and not recorded.

        :param name: of the step; a handler must ask for its recorded steps by their names and in their order.
        :param fn: a plain function; ``args`` and ``kwargs``: its arguments.
        :returns: what the function returned, as the board gives it back: tuples as lists, datetimes as UTC.
        :raises StepsChanged: another step is recorded in its place; nothing was called, and the job goes to the trash.
        :raises ClaimLost: the claim does not hold; nothing was written.
        :raises InvalidPosting: the result can't be stored; names the step.
        :raises BoardUnavailable: the store did not answer.
        :raises RuntimeError: another step of the job runs.
        """
        if inspect.iscoroutinefunction(fn):
            raise TypeError(f"the function of the step {name!r} is async; only an async handler can await it")
        return self._steps_now().run(name, lambda: fn(*args, **kwargs))  # type: ignore[no-any-return]

    def sleep(self, seconds: Seconds) -> None:
        """End the run, and go on here in another one after so many seconds, by the store's clock.

        Meanwhile the job holds no slot, thread or claim, and no attempt is counted. The sleep is a step: later runs
        don't sleep again. What ends the run passes ``except Exception``.

        :param seconds: 0 or more; a number, or a timedelta.
        :raises StepsChanged: another step is recorded in its place.
        :raises ClaimLost: the claim does not hold.
        :raises BoardUnavailable: the store did not answer.
        """
        self._steps_now().sleep(seconds)

    def wait_for(self, name: str, timeout: Seconds | None = None) -> Any:
        """Return the value of a signal that is sent to the job; end the run until it is, and go on here.

        Meanwhile the job is BLOCKED, and holds no slot, thread or claim; no attempt is counted. A signal that was sent
        before is there at once. What the wait brought is a step: later runs get the same.

        :param name: the signal's, at most 246 bytes.
        :param timeout: seconds, by the store's clock, after which it is waited for no longer; None: no limit.
        :returns: the ``value`` that was given to :meth:`JobBoard.signal`.
        :raises TimeoutError: it was not there in time.
        :raises StepsChanged: another step is recorded in its place.
        :raises ClaimLost: the claim does not hold.
        :raises BoardUnavailable: the store did not answer.
        """
        return self._steps_now().wait_for(name, timeout)

    def wait_for_jobs(self, name: str, jobs: Iterable[Posting | JobOrUuid]) -> list[Parent]:
        """Return how several jobs have ended; post those that are postings, end the run until all have, and go on here.

        Meanwhile the job is BLOCKED, and holds no slot, thread or claim; no attempt is counted. They are its parents:
        ``if_failed`` of the job says what becomes of it if one of them fails. The wait is a step: later runs post
        nothing, and don't wait again. A posting gets a uuid that is the same in each run, unless it has one.

        :param name: of the step, at most 246 bytes.
        :param jobs: postings, handles or uuids; at most 10,000.
        :returns: the jobs with their states and results, in the order of ``jobs``.
        :raises StepsChanged: another step is recorded in its place.
        :raises InvalidPosting: a posting can't be stored, or has an ``if_exists``.
        :raises ClaimLost: the claim does not hold.
        :raises BoardUnavailable: the store did not answer.
        """
        return self._steps_now().wait_for_jobs(name, jobs)

    def _steps_now(self) -> Steps:
        if self._steps is None:
            self._steps = Steps(self._snapshot, self._context)
        return self._steps

    def complete(
        self,
        result: Any = None,
        *,
        post: Iterable[Posting] = (),
        connection: Any = None,
        board: JobBoard | None = None,
    ) -> Any:
        """Complete the job from within its handler, so that its end is part of a transaction of the handler's.

        The job is complete if and only if that transaction commits. If it is rolled back, the job is claimed as before,
        and ends as its handler does: one that raises has failed. A handler that returns although its transaction did
        not commit has failed as well. What a handler returns after a commit is dropped.

        :param result: plain data, as what a handler returns.
        :param post: what is posted in the same step as the end, as by :meth:`~jobboard.JobBoard.post_many`; refused, it
            leaves the job claimed.
        :param connection: as for :meth:`~jobboard.JobBoard.post`, or an ``AsyncSession`` or ``AsyncConnection`` of
            SQLAlchemy; None completes the job at once, on any store.
        :param board: in a worker process, which has none: one that the handler has opened there, for a ``connection``.
        :returns: None; what has to be awaited, if the connection is an asynchronous one.
        :raises ClaimLost: another owner may run the job: let the transaction be rolled back, and its effect with it.
        :raises InvalidPosting: the result, or what is to be posted, can't be stored.
        :raises AlreadyPosted: a key of what is to be posted is taken.
        :raises NotFound: the board does not know a parent of what is to be posted.
        :raises StepsChanged: the handler has not asked for a recorded step; nothing was sent.
        :raises BoardUnavailable: the store did not answer.
        :raises NotSupported: the store can't take part in a transaction.
        :raises TypeError: the connection can't be used, or the board is none.
        """
        if board is not None and not isinstance(board, JobBoard):
            raise TypeError(f"board must be a JobBoard, not {type(board).__name__}")
        if self._steps is not None:
            self._steps.check_all_asked_for()
        postings = fixed_postings(check_postings(post))
        if (lend := getattr(connection, "run_sync", None)) is not None:
            return lend(lambda below: self._complete(result, postings, below, board))
        self._complete(result, postings, connection, board)
        return None

    def _complete(self, result: Any, postings: Sequence[Posting], connection: Any, board: JobBoard | None) -> None:
        # Before the end: other threads may see that it took place before this one does. They then ask the store for the
        # end, and send none.
        self._context.expect_end(True)
        try:
            self._context.complete(result, postings, connection, board)
        except BoardUnavailable:
            # It may have taken place.
            raise
        except Exception:
            self._context.expect_end(False)
            raise

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Report how far the job is; its record shows it within half a second, and the last report after the end.

        It is sent along with a renewal of all claims, twice a second at most, so it costs no request of its own. Right
        before jobs end, one request sends the last reports of them that no renewal has sent. It is lost if the claim
        is, and may be if :meth:`complete` is given a ``connection``.

        :param done: a finite number, in any unit; ``total``: how much there is in all, in the same unit.
        :param text: at most 500 characters are kept.
        :raises TypeError: a number or a text is of another type.
        :raises ValueError: a number is not finite, or has more than 64 bits.
        """
        # Checked here, where it fails this handler only: one request carries the reports of all jobs.
        report: dict[str, Any] = {"done": _check_amount("done", done)}
        if total is not None:
            report["total"] = _check_amount("total", total)
        if text is not None:
            if not isinstance(text, str):
                raise TypeError(f"text must be a str, not {type(text).__name__}")
            kept = text[:_MAX_PROGRESS_TEXT].encode("utf-8", "backslashreplace").decode()
            report["text"] = kept[:_MAX_PROGRESS_TEXT]
        self._context.report(report)

    @property
    def book(self) -> LogBook | None:
        """The logbook that the job points at, loaded anew; None if it has none.

        :raises NotFound: it is gone, or elsewhere: ``book_ref`` says where.
        :raises BoardUnavailable: the store did not answer.
        """
        check_not_elsewhere(self.uuid, self.book_ref)
        uuid = self.book_uuid
        return None if uuid is None else self._context.load_book(uuid)

    def save_book(self, book: LogBook) -> None:
        """Save what changed in a logbook, under the job's claim: a late owner changes nothing.

        :raises ClaimLost: the claim does not hold; nothing was written.
        :raises StaleBook: somebody else has saved it since it was loaded.
        :raises BoardUnavailable: the store did not answer.
        """
        self._context.save_book(book)

    def __repr__(self) -> str:
        job = self._snapshot
        return f"<RunningJob {job.name!r} {job.uuid} attempt {job.attempts} token {job.token}>"


def _check_amount(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be a number, not {type(value).__name__}")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{what} must be a finite number of at most 64 bits; got {value!r}")
    return value
