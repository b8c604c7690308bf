"""jobboard: post jobs on the store that you already run; each is claimed by exactly one owner."""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.conductor import (
        AsyncBatchJob,
        AsyncRunningJob,
        Backoff,
        BatchJob,
        Broken,
        Cancelled,
        CheckpointNotStored,
        Conductor,
        Handlers,
        InvalidDetails,
        RunAgain,
        RunningJob,
        StepNotStored,
        StepsChanged,
        Task,
        current_job,
    )
    from jobboard.configuration import connect
    from jobboard.converter import Converter
    from jobboard.errors import (
        AlreadyPosted,
        AlreadyScheduled,
        BoardUnavailable,
        ClaimLost,
        InvalidPosting,
        JobBoardError,
        JobCancelled,
        JobFailed,
        NotFound,
        StaleBook,
        UnclaimableJob,
        UnknownBackend,
    )
    from jobboard.events import EventKind, JobEvent
    from jobboard.fetching import backend, fetch
    from jobboard.graph import Graph
    from jobboard.job import Job, Posting
    from jobboard.limit import LaneStats, Limit, Rate
    from jobboard.logbook import LogBook
    from jobboard.opening import open as open
    from jobboard.participants import Entity
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
    )
    from jobboard.states import JobPriority, JobState
    from jobboard.stats import BoardStats
    from jobboard.then import Then

# Without ``open``, which would hide the builtin one from who imports ``*``.
__all__ = [
    "AllOf",
    "AlreadyPosted",
    "AlreadyScheduled",
    "AnyOf",
    "AsyncBatchJob",
    "AsyncRunningJob",
    "At",
    "Backoff",
    "BatchJob",
    "BoardStats",
    "BoardUnavailable",
    "Broken",
    "Calendar",
    "Cancelled",
    "CheckpointNotStored",
    "ClaimLost",
    "Conductor",
    "Converter",
    "Cron",
    "Entity",
    "EventKind",
    "Every",
    "Excluding",
    "Graph",
    "Handlers",
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
    "LaneStats",
    "Limit",
    "LogBook",
    "NotFound",
    "Posting",
    "Rate",
    "RunAgain",
    "RunningJob",
    "Schedule",
    "Scheduler",
    "Schedules",
    "StaleBook",
    "StepNotStored",
    "StepsChanged",
    "Task",
    "Then",
    "UnclaimableJob",
    "UnknownBackend",
    "backend",
    "connect",
    "current_job",
    "fetch",
]

#: The public names by the module that has them; a module is imported when one of its names is first used.
_NAMES = {
    "board": "JobBoard",
    "conductor": (
        "AsyncBatchJob AsyncRunningJob Backoff BatchJob Broken Cancelled CheckpointNotStored Conductor Handlers "
        "InvalidDetails RunAgain RunningJob StepNotStored StepsChanged Task current_job"
    ),
    "configuration": "connect",
    "converter": "Converter",
    "errors": (
        "AlreadyPosted AlreadyScheduled BoardUnavailable ClaimLost InvalidPosting JobBoardError JobCancelled JobFailed "
        "NotFound StaleBook UnclaimableJob UnknownBackend"
    ),
    "events": "EventKind JobEvent",
    "fetching": "backend fetch",
    "graph": "Graph",
    "job": "Job Posting",
    "limit": "LaneStats Limit Rate",
    "logbook": "LogBook",
    "opening": "open",
    "participants": "Entity",
    "scheduler": "Scheduler",
    "schedules.collection": "Schedules",
    "schedules.schedule": "Schedule",
    "schedules.triggers": "AllOf AnyOf At Calendar Cron Every Excluding",
    "states": "JobPriority JobState",
    "stats": "BoardStats",
    "then": "Then",
}
#: Names that were here once, by the modules that users import them from.
_MOVED_NAMES = {
    "errors": (
        "MissingExtra NotSupported ReplyLost RequestRefused RowLocked SearchEnded TooLarge TransactionUndone "
        "UnreadableRecord UnreadableSchedule"
    ),
    "events": "HistoryEntry",
    "logbook": "BookInfo BookRef",
    "record": "Record Undecodable",
    "schedules.triggers": "Trigger trigger_from_plain",
    "stats": "NameStats",
}


def _by_name(names: dict[str, str]) -> dict[str, str]:
    return {name: f"jobboard.{module}" for module, listed in names.items() for name in listed.split()}


_MODULES, _MOVED = _by_name(_NAMES), _by_name(_MOVED_NAMES)

if not TYPE_CHECKING:  # to type checkers it would say that every name exists

    def __getattr__(name: str) -> object:
        if name in _MOVED:
            text = f"jobboard.{name} is deprecated: import it from {_MOVED[name]}"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return getattr(import_module(_MOVED[name]), name)
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return found


def __dir__() -> list[str]:
    return sorted(_MODULES)
