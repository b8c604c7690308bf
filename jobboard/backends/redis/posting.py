"""The producers' primitives: post, and cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jobboard.backends.redis.client import Client
from jobboard.backends.redis.wire import entries_of, micros, pack
from jobboard.backends.rows import CancelOutcome, JobRow, NewJob, Posted, PostOutcome
from jobboard.states import JobState

_OUTCOMES = {outcome.name.encode(): outcome for outcome in PostOutcome}
_GONE = {gone.name.encode(): gone for gone in CancelOutcome}


class Posting(Client):
    """A batch is one script."""

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        if not rows:
            return []
        items = pack([item_of(new) for new in rows])
        _, now, codes, parts = self._change("post", items, *[new.body for new in rows])
        others = iter(entries_of(parts))
        return [
            Posted(PostOutcome.POSTED, _entry_of(new, code, now / 1e6))
            if isinstance(code, int)
            else Posted(_OUTCOMES[code], _with_body(next(others), new))
            for new, code in zip(rows, codes, strict=True)
        ]

    def cancel(self, uuids: Sequence[str]) -> list[CancelOutcome]:
        return [_GONE[answer] for answer in self._change_all("cancel", uuids)]


def item_of(new: NewJob) -> list[Any]:
    return [
        new.uuid,
        new.name,
        new.priority,
        new.key,
        new.if_exists.value,
        None if new.run_at is None else micros(new.run_at),
        micros(new.delay) if new.delay else None,
        new.max_attempts,
    ]


def _with_body(row: JobRow, new: NewJob) -> JobRow:
    """What is remembered of a job that has ended, only to answer repeated requests, is without its posting."""
    return row if row.body else replace(row, body=new.body)


def _entry_of(new: NewJob, sequence: int, now: float) -> JobRow:
    """What was posted just as it was sent need not be sent back."""
    run_at = now + new.delay if new.delay else new.run_at
    state = JobState.DELAYED if run_at is not None and run_at > now else JobState.UNCLAIMED
    return JobRow(
        new.uuid, new.name, new.priority, sequence, now, new.body, new.key, run_at, new.max_attempts, state,
        last_modified=now,
    )  # fmt: skip
