"""jobboard: post jobs on the coordination service that you already run; each is claimed by exactly one owner."""

# The function ``backend`` takes the place of the module of that name here, once the imports have loaded the module;
# ``from jobboard.backend import Backend`` works all the same.
from jobboard.board import JobBoard, Schedules
from jobboard.book import LogBook
from jobboard.conductor import Backoff, Broken, Cancelled, Conductor, Handlers, RunAgain, RunningJob
from jobboard.entity import Entity
from jobboard.entry import JobState
from jobboard.errors import (
    AlreadyPosted,
    AlreadyScheduled,
    BoardUnavailable,
    ClaimLost,
    InvalidPosting,
    JobBoardError,
    MissingExtra,
    NotFound,
    NotSupported,
    SearchEnded,
    StaleBook,
    UnclaimableJob,
    UnknownBackend,
    UnreadableRecord,
    UnreadableSchedule,
)
from jobboard.events import EventKind, HistoryEntry, JobEvent
from jobboard.fetching import backend, fetch
from jobboard.job import Job
from jobboard.posting import JobPriority, Posting
from jobboard.record import Record, Undecodable
from jobboard.scheduler.schedule import Schedule
from jobboard.scheduler.scheduler import Scheduler
from jobboard.scheduler.triggers import (
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
from jobboard.stats import BoardStats, NameStats

__all__ = [
    "AllOf",
    "AlreadyPosted",
    "AlreadyScheduled",
    "AnyOf",
    "At",
    "Backoff",
    "BoardStats",
    "BoardUnavailable",
    "Broken",
    "Calendar",
    "Cancelled",
    "ClaimLost",
    "Conductor",
    "Cron",
    "Entity",
    "EventKind",
    "Every",
    "Excluding",
    "Handlers",
    "HistoryEntry",
    "InvalidPosting",
    "Job",
    "JobBoard",
    "JobBoardError",
    "JobEvent",
    "JobPriority",
    "JobState",
    "LogBook",
    "MissingExtra",
    "NameStats",
    "NotFound",
    "NotSupported",
    "Posting",
    "Record",
    "RunAgain",
    "RunningJob",
    "Schedule",
    "Scheduler",
    "Schedules",
    "SearchEnded",
    "StaleBook",
    "Trigger",
    "UnclaimableJob",
    "Undecodable",
    "UnknownBackend",
    "UnreadableRecord",
    "UnreadableSchedule",
    "backend",
    "fetch",
    "trigger_from_plain",
]
