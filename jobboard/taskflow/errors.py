"""TaskFlow's errors for the board's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from taskflow import exceptions as taskflow_errors

from jobboard.errors import ClaimLost, JobBoardError, NotFound


class LateEngine(taskflow_errors.ExecutionFailure):  # type: ignore[misc]
    """The claim of an engine's job is lost, so that it may change nothing more.

    TaskFlow would try a ``StorageFailure`` again; conductors consume a job after neither.
    """


class FactoryRefused(taskflow_errors.TaskFlowException):  # type: ignore[misc]
    """A job names a factory that its conductor's ``factories`` does not allow; it was not called."""


@contextmanager
def storing() -> Iterator[None]:
    """Raise what TaskFlow expects of a persistence backend."""
    try:
        yield
    except NotFound as error:
        raise taskflow_errors.NotFound(str(error)) from error
    except ClaimLost as error:
        raise LateEngine(str(error)) from error
    except JobBoardError as error:
        raise taskflow_errors.StorageFailure(str(error)) from error


@contextmanager
def translated() -> Iterator[None]:
    """Raise TaskFlow's ``NotFound`` for the board's, and its ``JobFailure`` for all else that the board may say."""
    try:
        yield
    except NotFound as error:
        raise taskflow_errors.NotFound(str(error)) from error
    except JobBoardError as error:
        raise taskflow_errors.JobFailure(str(error)) from error
