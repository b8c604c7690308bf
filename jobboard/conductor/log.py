"""The log of conductors."""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobboard.telemetry import RunningJob


class SteadyLogger(logging.LoggerAdapter[logging.Logger]):
    """Ignores errors of log handlers, which would end a thread that claims depend on."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Keep ``extra`` as it is given."""
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception:  # nosec B110 # an error of the log can't be logged
            pass


logger = SteadyLogger(logging.getLogger("jobboard.conductor"), {})
#: Whether lines of a level are logged; asked for every job, and the adapter would only call this.
is_logged = logger.logger.isEnabledFor


def facts_of(job: RunningJob) -> dict[str, Any]:
    """Return what a line on a job, or of its handler, has as ``record.facts``; never its details."""
    return {"job": job.name, "uuid": job.uuid, "attempt": job.attempts}


#: What each worker process calls first, to log as its conductor does.
begin_log_of_worker: Callable[[], None] | None = None


def log_in_workers_by(begin: Callable[[], None]) -> None:
    """Let worker processes that start from now on call this first; it can be pickled."""
    global begin_log_of_worker
    begin_log_of_worker = begin
