"""The log of the commands that run until a signal, on standard error."""

from __future__ import annotations

import functools
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import click

from jobboard.cli.session import Function, options, setting

_LEVELS = ("debug", "info", "warning", "error")

_options = options(
    setting(
        "--log-level",
        "What is logged: each start of a job (debug), each end, what will be tried again, what failed for good.",
        "info",
        type=click.Choice(_LEVELS, case_sensitive=False),
    ),
    setting(
        "--log-format", "Lines for people, or one JSON object a line.", "text", type=click.Choice(["text", "json"])
    ),
)


class TextFormatter(logging.Formatter):
    """One line a record: time (of this machine), level, and message; of another logger than a conductor's also the job.

    A conductor's own messages name it themselves.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "facts", {})
        if "job" in facts and record.name != "jobboard.conductor":
            attempt = f" {facts['uuid']} attempt {facts['attempt']}" if "uuid" in facts else ""
            record.message = f"job {facts['job']!r}{attempt}: {record.message}"
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """One object a line: time (UTC), level, logger, message, the facts of a job, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class SteadyHandler(logging.StreamHandler[TextIO]):
    """Writes to a stream that handlers of jobs may close: then nobody hears it, and nothing fails."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not getattr(self.stream, "closed", True):
            super().handleError(record)


def _log_to_stderr(level: str, form: str) -> None:
    """Log to standard error, in this process and in workers; of other packages nothing below INFO."""
    # Only commands that run for long import conductors.
    from jobboard.conductor.log import log_in_workers_by
    from jobboard.logs import JobFilter

    handler = SteadyHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(JobFilter())
    chosen = logging.getLevelName(level.upper())
    logging.basicConfig(level=max(chosen, logging.INFO), handlers=[handler])
    logging.getLogger("jobboard").setLevel(chosen)
    log_in_workers_by(functools.partial(_log_to_stderr, level, form))


def logs_to_stderr(command: Function) -> Function:
    """Let a command log to standard error, as two options of it say."""

    @functools.wraps(command)
    def logging_command(*args: Any, log_level: str, log_format: str, **options: Any) -> Any:
        _log_to_stderr(log_level, log_format)
        return command(*args, **options)

    return _options(logging_command)
