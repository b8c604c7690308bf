"""jobboard: post jobs on the coordination service that you already run; each is claimed by exactly one owner."""

from jobboard.board import JobBoard, Schedules
from jobboard.conductor import Backoff, Broken, Cancelled, Conductor, Handlers, RunAgain, RunningJob
from jobboard.entity import Entity
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
from jobboard.job import Job, Posting, Record, Undecodable
from jobboard.logbook import LogBook
from jobboard.scheduler import Scheduler
from jobboard.schedules.schedule import Schedule
from jobboard.schedules.triggers import AllOf, AnyOf, At, Calendar, Cron, Every, Excluding, Trigger, trigger_from_plain
from jobboard.states import JobPriority, JobState
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
