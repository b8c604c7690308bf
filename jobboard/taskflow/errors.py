"""TaskFlow's errors for the board's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from taskflow import exceptions as taskflow_errors

from jobboard.errors import JobBoardError, NotFound


@contextmanager
def translated() -> Iterator[None]:
    """Raise TaskFlow's ``NotFound`` for the board's, and its ``JobFailure`` for all else that the board may say."""
    try:
        yield
    except NotFound as error:
        raise taskflow_errors.NotFound(str(error)) from error
    except JobBoardError as error:
        raise taskflow_errors.JobFailure(str(error)) from error
