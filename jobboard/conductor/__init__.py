"""Conductors claim jobs, run the registered handlers, and end the claims."""

from jobboard.conductor.async_running_job import AsyncRunningJob
from jobboard.conductor.batch_calling import AsyncBatchJob, BatchJob
from jobboard.conductor.conductor import Conductor
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.outcome import Broken, Cancelled, RunAgain
from jobboard.conductor.retrying import Backoff
from jobboard.conductor.run_context import current_job
from jobboard.conductor.running_job import CheckpointNotStored, RunningJob
from jobboard.conductor.signals import stop_on_signals
from jobboard.conductor.steps import StepNotStored, StepsChanged
from jobboard.conductor.task import Task
from jobboard.conductor.typed_details import InvalidDetails

__all__ = [
    "AsyncBatchJob",
    "AsyncRunningJob",
    "Backoff",
    "BatchJob",
    "Broken",
    "Cancelled",
    "CheckpointNotStored",
    "Conductor",
    "Handlers",
    "InvalidDetails",
    "RunAgain",
    "RunningJob",
    "StepNotStored",
    "StepsChanged",
    "Task",
    "current_job",
    "stop_on_signals",
]
