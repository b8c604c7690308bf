"""The types of arguments that many calls have in common, for the hints of your own functions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Literal, TypeAlias

from jobboard.states import JobPriority

#: A span of time: a number of seconds, or a timedelta. Every public argument that is in seconds takes both.
Seconds: TypeAlias = float | timedelta

#: A priority, or its name.
Priority: TypeAlias = JobPriority | Literal["very_high", "high", "normal", "low", "very_low"]

#: What becomes of a posting, or a schedule, if the key or the id is taken.
IfExistsName: TypeAlias = Literal["raise", "keep", "replace"]

#: What becomes of a job one of whose parents fails.
IfFailedName: TypeAlias = Literal["wait", "cancel", "run"]

#: Where handlers run. The name of an entry point of your own is for :func:`typing.cast`.
ExecutorName: TypeAlias = Literal["thread", "process", "asyncio"]

#: Errors by their classes, as ``except`` takes them.
ErrorClasses: TypeAlias = type[Exception] | tuple[type[Exception], ...]

#: Returns the seconds until the next attempt: by the attempt that failed, of which the first is 1, and by its error.
BackoffFunction: TypeAlias = Callable[[int, Exception], Seconds]

#: What a conductor does when too many of its slots are stuck.
OnStuck: TypeAlias = Literal["stay", "exit"]

#: Which of several missed fire times are posted.
Coalesce: TypeAlias = Literal["latest", "earliest", "all"]

#: What becomes of a fire time while ``max_instances`` jobs of its schedule are live.
Overlap: TypeAlias = Literal["skip", "buffer_one"]

#: What becomes of a fixed time that clocks skip in spring.
Gap: TypeAlias = Literal["shift", "skip"]

#: Which is meant of a fixed time that clocks show twice in autumn.
Fold: TypeAlias = Literal["first", "second", "both"]

#: Whether other jobs of a lane may pass one that waits for its retry.
LaneOrder: TypeAlias = Literal["free", "strict"]
