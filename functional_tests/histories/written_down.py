"""A board whose owner's calls are written down as those of a worker are: what a conductor does beside its handlers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jobboard import Job, JobBoard
from jobboard.backends.base import Waiter
from jobboard.backends.rows import JobRow, Verdict
from jobboard.board import client_of

from .records import Diary, told
from .worker import shown


def write_down(board: JobBoard, diary: Diary, expiry: float) -> None:
    """Write down every claim that this board makes from now on, its renewals and its ends.

    A claim counts from when its request was sent; one that the store made ahead, from when it was asked to.

    :param expiry: seconds that a claim lasts.
    """
    calls = _Calls(board, diary, expiry)
    for name in ("_extend_each", "consume_many", "consume", "abandon", "trash", "_claims_for"):
        setattr(board, name, getattr(calls, name.lstrip("_")))
    client = client_of(board)
    waiter_of = client.waiter

    def waiter(names: frozenset[str] | None = None) -> Waiter:
        made = waiter_of(names)
        made.claimed = partial(calls.claimed, made.claimed)  # type: ignore[method-assign]
        return made

    client.waiter = waiter  # type: ignore[method-assign]


class _Calls:
    def __init__(self, board: JobBoard, diary: Diary, expiry: float) -> None:
        self._diary, self._expiry = diary, expiry
        self._extend_each, self._consume_many = board._extend_each, board.consume_many
        self._consume, self._abandon, self._trash = board.consume, board.abandon, board.trash
        self._claims_for = board._claims_for

    def claims_for(self, who: str, names: Any, expiry: float | None) -> Callable[[int], list[Job]]:
        claim_next = self._claims_for(who, names, expiry)

        def claim(limit: int) -> list[Job]:
            args = {"who": who, "names": sorted(names), "limit": limit, "expiry": expiry}
            return self._diary.pass_on("claim_next", args, lambda: claim_next(limit), lambda jobs: [*map(shown, jobs)])

        return claim

    def claimed(self, ask: Callable[[], tuple[list[JobRow], float]]) -> tuple[list[JobRow], float]:
        """Write down what the store has claimed ahead."""
        rows, since = ask()
        if rows:
            args = {"who": rows[0].owner, "names": None, "limit": len(rows), "expiry": self._expiry, "ahead": True}
            self._diary.note("claim_next", args, since, [shown_row(row) for row in rows])
        return rows, since

    def extend_each(self, jobs: Sequence[Job], who: str, expiry: float, progress: Any) -> list[Any]:
        args = {"who": who, "fences": [[job.uuid, job.token] for job in jobs], "expiry": expiry}
        request = partial(self._extend_each, jobs, who, expiry, progress)
        return self._diary.pass_on("extend_many", args, request, lambda answers: [*map(_told_of, answers)])

    def consume_many(self, jobs: Sequence[Job], who: str, **more: Any) -> list[Any]:
        args = {"who": who, "fences": [[job.uuid, job.token] for job in jobs]}
        return self._diary.pass_on(
            "consume_many", args, lambda: self._consume_many(jobs, who, **more),
            lambda errors: [None if error is None else told(error) for error in errors],
        )  # fmt: skip

    def consume(self, job: Job, who: str, *result: Any, **more: Any) -> None:
        self._end("consume", job, who, more, lambda: self._consume(job, who, *result, **more))

    def abandon(self, job: Job, who: str, **more: Any) -> None:
        self._end("abandon", job, who, more, lambda: self._abandon(job, who, **more))

    def trash(self, job: Job, who: str, **more: Any) -> None:
        self._end("trash", job, who, more, lambda: self._trash(job, who, **more))

    def _end(self, op: str, job: Job, who: str, more: dict[str, Any], request: Callable[[], None]) -> None:
        args = {"who": who, "uuid": job.uuid, "token": more.get("token") or job.token, "delay": more.get("delay")}
        self._diary.pass_on(op, args, request, lambda _: None)


def _told_of(answer: Verdict | Exception) -> tuple[str, str] | None:
    if isinstance(answer, Exception):
        return told(answer)
    return ("refused", "lost") if answer is Verdict.LOST else None


def shown_row(row: JobRow) -> dict[str, Any]:
    return {"uuid": row.uuid, "token": row.token, "name": row.name, "priority": row.priority,
            "place": row.place, "lane": None if row.ties is None else row.ties.lane,
            "sequence": row.sequence, "attempts": row.attempts, "max_attempts": row.max_attempts}  # fmt: skip
