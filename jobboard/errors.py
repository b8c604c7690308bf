"""Every error that a board raises about its own state; a bad argument is a ``TypeError`` or a ``ValueError``."""

from __future__ import annotations

import copy

from jobboard.states import JobState


class JobBoardError(Exception):
    """What the board's state, or its store, forbids."""


class NotFound(JobBoardError):
    """No such job, book or trashed entry is on this board."""


class UnclaimableJob(JobBoardError):
    """The job can't be claimed now: :attr:`state` says how it stands (None: unknown), :attr:`owner` who has claimed it
    (None: nobody).
    """

    def __init__(self, message: str, *, owner: str | None = None, state: JobState | None = None) -> None:
        super().__init__(message)
        self.owner = owner
        self.state = state


class ClaimLost(JobBoardError):
    """The claim does not hold (any more), and nothing was changed.

    :attr:`state` says how the job stands now, and :attr:`owner` who has claimed it since, as far as the store's answer
    told: None for unknown, for a job that is gone, and for an owner that there is not.
    """

    def __init__(self, message: str, *, owner: str | None = None, state: JobState | None = None) -> None:
        super().__init__(message)
        self.owner = owner
        self.state = state


class AlreadyPosted(JobBoardError):
    """A live job of this name has this key; :attr:`uuid` is that job's."""

    def __init__(self, message: str, *, uuid: str | None = None) -> None:
        super().__init__(message)
        self.uuid = uuid


class InvalidPosting(JobBoardError, ValueError):
    """The posting can't be stored; :attr:`path` names the value at fault, such as ``details.user.id``."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class JobFailed(JobBoardError):
    """The job is in the trash: :attr:`reason` says why, and :attr:`last_error` has the traceback if there is one."""

    def __init__(self, message: str, *, reason: str | None = None, last_error: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.last_error = last_error


class JobCancelled(JobBoardError):
    """The job was cancelled, and has no result."""


class StaleBook(JobBoardError):
    """Somebody saved this logbook since it was loaded; load it again and redo the change."""


class AlreadyScheduled(JobBoardError):
    """There is a schedule of this id."""


class UnreadableRecord(JobBoardError):
    """A job's stored checkpoint or result can't be decoded; the rest of its record can be seen."""


class UnreadableSchedule(JobBoardError):
    """The stored schedule can't be decoded; it can be removed, or replaced."""


class BoardUnavailable(JobBoardError):
    """The store can't be reached, refuses to work, or its answer is lost for good."""


class ReplyLost(BoardUnavailable):
    """The connection broke after the request left: it may or may not have taken effect.

    Backends raise it, and the board sends the same request again under the same ids. It reaches a user only when
    the board's patience is over, and then says that the outcome is unknown.

    :ivar is_partial: a part took effect for certain, and a part did not, so that a repeat would only find the same.
    """

    is_partial = False


class RequestRefused(BoardUnavailable):
    """The store answers, and refuses this very request: it changed nothing. Other requests may get through."""


class TooLarge(RequestRefused):
    """The store takes no request of this size: it changed nothing, and would refuse it again.

    ``largest_details`` is larger than this store, or what it is set to, has room for.
    """


class TransactionUndone(BoardUnavailable):
    """An SQL server undid a transaction because of others: it changed nothing, and may succeed if it is run again.

    The causes: a deadlock, a serialization failure, a row of the same key that somebody else inserted meanwhile, or a
    connection that broke before the commit. The board runs its own transactions again for ten seconds before it raises
    this, but not those that open it. In a transaction of yours (``connection=``) only you can: roll back, and begin
    anew.

    :ivar is_silent: the server did not reply in time; another try would wait as long.
    :ivar is_key_taken: somebody else inserted a row of the same key.
    """

    def __init__(self, message: str, *, is_silent: bool = False, is_key_taken: bool = False) -> None:
        super().__init__(message)
        self.is_silent = is_silent
        self.is_key_taken = is_key_taken


class RowLocked(RequestRefused):
    """Another transaction keeps locked what this request has to change; once that transaction ends, it can be made."""


def is_because_of(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether a call failed by an error of this kind, also if other parts of it took effect."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    return error is not None


def restated(error: BoardUnavailable, text: str) -> BoardUnavailable:
    """Return an error that says something else, and is of the same kind and knows the same."""
    own = copy.copy(error)
    own.args = (text,)
    return own


def is_too_large(error: BaseException | None) -> bool:
    """Whether a call failed by :class:`TooLarge`, also if other parts of it took effect."""
    return is_because_of(error, TooLarge)


class NotSupported(JobBoardError):
    """This kind of store can't do that; ``board.capabilities`` says so beforehand."""


class UnknownBackend(JobBoardError):
    """No backend of that name is installed, or the package that it needs is missing."""


class MissingExtra(JobBoardError, ImportError):
    """A package is not installed that this needs; says which extra to install."""


class LifespanFailed(JobBoardError):
    """What the lifespan of handlers should make was not there: it raised an error, or did not yield in time.

    The conductor has not started; the text says which lifespan it was, and ``__cause__`` is its error.
    """


class SearchEnded(JobBoardError):
    """A trigger's bounded search for its next fire time has met its bound, and found none."""
