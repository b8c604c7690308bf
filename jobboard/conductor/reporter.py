"""Tells the log and the recorders of telemetry what a conductor does; never with details of a job."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable

from jobboard import telemetry
from jobboard.conductor.execution import Execution
from jobboard.conductor.log import facts_of, is_logged, logger
from jobboard.conductor.outcome import Failed, Returned
from jobboard.job import row_of
from jobboard.text import in_one_line

#: How loud the end of a claim is; other ends are of level INFO.
_LEVELS = {"failed": logging.WARNING, "trashed": logging.ERROR}
#: What the log says of an outcome whose own word could be misread: "again after 2 s" ran for so long.
_WORDS = {"again": "suspended"}
#: How many names of jobs a line shows.
_MAX_NAMES = 20


class Reporter:
    """Reports for one run of a conductor, and counts the ends for its last line.

    :param who: the conductor.
    """

    def __init__(self, who: str) -> None:
        self._who = who
        self._began = time.monotonic()
        self._counts: Counter[str] = Counter()

    def conductor_started(self, names: Iterable[str], executors: Iterable[str], slots: int) -> None:
        names, used = sorted(names), sorted(executors)
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        shown = ", ".join(repr(name) for name in names[:_MAX_NAMES]) or "nothing"
        where = f"the {' and '.join(used)} executor{'s' * (len(used) != 1)}"
        text = "conductor %s runs %s%s in %d slot%s of %s"
        logger.info(text, self._who, shown, more, slots, "s" * (slots != 1), where)

    def conductor_stopped(self) -> None:
        counted = ", ".join(
            f"{number} {_WORDS.get(outcome, outcome)}" for outcome, number in sorted(self._counts.items())
        )
        seconds = time.monotonic() - self._began
        logger.info("conductor %s stopped after %.1f s: %s", self._who, seconds, counted or "no job ended")

    def job_ended(self, execution: Execution) -> None:
        outcome, seconds = execution.ended_as, execution.seconds
        self._counts[outcome] += 1
        level = _LEVELS.get(outcome, logging.INFO)
        if is_logged(level):
            self._log(execution, outcome, seconds, level)
        if telemetry.is_on():
            telemetry.emit("ended", execution.snapshot, outcome, seconds)

    def _log(self, execution: Execution, outcome: str, seconds: float, level: int) -> None:
        job = execution.snapshot
        facts = {**facts_of(job), "seconds": seconds, "outcome": outcome}
        text = "job %s %s attempt %d %s after %.3f s"
        arguments: list[object] = [repr(job.name), job.uuid, job.attempts, _WORDS.get(outcome, outcome), seconds]
        if reason := _reason_of(execution):
            text += ": %s"
            arguments.append(reason)
            facts["reason"] = reason
        logger.log(level, text, *arguments, extra={"facts": facts})


def job_started(execution: Execution) -> None:
    """Tell that the handler begins now."""
    if is_logged(logging.DEBUG):
        job = execution.snapshot
        text = "job %s %s attempt %d starts"
        logger.debug(text, repr(job.name), job.uuid, job.attempts, extra={"facts": facts_of(job)})
    if telemetry.is_on():
        telemetry.emit("started", execution.snapshot)
        waited = row_of(execution.job).waited
        if waited is not None and execution.began_at is not None:
            seconds = waited + execution.began_at - execution.claimed_at
            telemetry.emit("picked_up", execution.snapshot, seconds)


def _reason_of(execution: Execution) -> str | None:
    """Return why it did not succeed; of an exception it is its traceback's last line."""
    outcome = execution.outcome
    return in_one_line(outcome.reason) if isinstance(outcome, Failed | Returned) else None
