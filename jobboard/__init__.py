"""jobboard: post jobs on the store that you already run; each is claimed by exactly one owner."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.conductor import (
        AsyncRunningJob,
        Backoff,
        Broken,
        Cancelled,
        Conductor,
        Handlers,
        InvalidDetails,
        RunAgain,
        RunningJob,
        Task,
    )
    from jobboard.configuration import connect
    from jobboard.converter import Converter
    from jobboard.entity import Entity
    from jobboard.errors import (
        AlreadyPosted,
        AlreadyScheduled,
        BoardUnavailable,
        ClaimLost,
        InvalidPosting,
        JobBoardError,
        JobCancelled,
        JobFailed,
        MissingExtra,
        NotFound,
        NotSupported,
        ReplyLost,
        RequestRefused,
        RowLocked,
        SearchEnded,
        StaleBook,
        TooLarge,
        TransactionUndone,
        UnclaimableJob,
        UnknownBackend,
        UnreadableRecord,
        UnreadableSchedule,
    )
    from jobboard.events import EventKind, HistoryEntry, JobEvent
    from jobboard.fetching import backend, fetch
    from jobboard.job import Job, Posting
    from jobboard.logbook import BookInfo, BookRef, LogBook
    from jobboard.opening import open
    from jobboard.record import Record, Undecodable
    from jobboard.scheduler import Scheduler
    from jobboard.schedules.collection import Schedules
    from jobboard.schedules.schedule import Schedule
    from jobboard.schedules.triggers import (
        AllOf,
        AnyOf,
        At,
        Calendar,
        Cron,
        Every,
        Excluding,
        Trigger,
        trigger_from_plain,
    )
    from jobboard.states import JobPriority, JobState
    from jobboard.stats import BoardStats, NameStats

__all__ = [
    "AllOf",
    "AlreadyPosted",
    "AlreadyScheduled",
    "AnyOf",
    "AsyncRunningJob",
    "At",
    "Backoff",
    "BoardStats",
    "BoardUnavailable",
    "BookInfo",
    "BookRef",
    "Broken",
    "Calendar",
    "Cancelled",
    "ClaimLost",
    "Conductor",
    "Converter",
    "Cron",
    "Entity",
    "EventKind",
    "Every",
    "Excluding",
    "Handlers",
    "HistoryEntry",
    "InvalidDetails",
    "InvalidPosting",
    "Job",
    "JobBoard",
    "JobBoardError",
    "JobCancelled",
    "JobEvent",
    "JobFailed",
    "JobPriority",
    "JobState",
    "LogBook",
    "MissingExtra",
    "NameStats",
    "NotFound",
    "NotSupported",
    "Posting",
    "Record",
    "ReplyLost",
    "RequestRefused",
    "RowLocked",
    "RunAgain",
    "RunningJob",
    "Schedule",
    "Scheduler",
    "Schedules",
    "SearchEnded",
    "StaleBook",
    "Task",
    "TooLarge",
    "TransactionUndone",
    "Trigger",
    "UnclaimableJob",
    "Undecodable",
    "UnknownBackend",
    "UnreadableRecord",
    "UnreadableSchedule",
    "backend",
    "connect",
    "fetch",
    "open",
    "trigger_from_plain",
]

#: The public names by the module that has them; a module is imported when one of its names is first used.
_NAMES = {
    "board": "JobBoard",
    "conductor": "AsyncRunningJob Backoff Broken Cancelled Conductor Handlers InvalidDetails RunAgain RunningJob Task",
    "converter": "Converter",
    "entity": "Entity",
    "errors": (
        "AlreadyPosted AlreadyScheduled BoardUnavailable ClaimLost InvalidPosting JobBoardError JobCancelled JobFailed "
        "MissingExtra NotFound NotSupported ReplyLost RequestRefused RowLocked SearchEnded StaleBook TooLarge "
        "TransactionUndone UnclaimableJob UnknownBackend UnreadableRecord UnreadableSchedule"
    ),
    "events": "EventKind HistoryEntry JobEvent",
    "configuration": "connect",
    "fetching": "backend fetch",
    "job": "Job Posting",
    "opening": "open",
    "logbook": "BookInfo BookRef LogBook",
    "record": "Record Undecodable",
    "scheduler": "Scheduler",
    "schedules.collection": "Schedules",
    "schedules.schedule": "Schedule",
    "schedules.triggers": "AllOf AnyOf At Calendar Cron Every Excluding Trigger trigger_from_plain",
    "states": "JobPriority JobState",
    "stats": "BoardStats NameStats",
}
_MODULES = {name: f"jobboard.{module}" for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # to type checkers it would say that every name exists

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
