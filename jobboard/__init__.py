"""jobboard: post jobs on the coordination service that you already run; each is claimed by exactly one owner."""

# The function ``backend`` takes the place of the module of that name here, once the imports have loaded the module;
# ``from jobboard.backend import Backend`` works all the same.
from jobboard.board import JobBoard
from jobboard.book import LogBook
from jobboard.conductor import Backoff, Broken, Cancelled, Conductor, Handlers, RunAgain, RunningJob
from jobboard.entity import Entity
from jobboard.entry import JobState
from jobboard.errors import (
    AlreadyPosted,
    BoardUnavailable,
    ClaimLost,
    InvalidPosting,
    JobBoardError,
    NotFound,
    StaleBook,
    UnclaimableJob,
    UnknownBackend,
)
from jobboard.events import EventKind, HistoryEntry, JobEvent
from jobboard.fetching import backend, fetch
from jobboard.job import Job
from jobboard.posting import JobPriority, Posting
from jobboard.record import Record
from jobboard.stats import BoardStats, NameStats

__all__ = [
    "AlreadyPosted",
    "Backoff",
    "BoardStats",
    "BoardUnavailable",
    "Broken",
    "Cancelled",
    "ClaimLost",
    "Conductor",
    "Entity",
    "EventKind",
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
    "NameStats",
    "NotFound",
    "Posting",
    "Record",
    "RunAgain",
    "RunningJob",
    "StaleBook",
    "UnclaimableJob",
    "UnknownBackend",
    "backend",
    "fetch",
]
