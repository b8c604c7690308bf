"""Ends of claims that post in the same step, and the answers of scripts that end claims and post."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from jobboard.backends.cutting import parts_by_size
from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.codec import fence_parts, pack, posted_row, posting_parts, rows_of, text_of
from jobboard.backends.redis.moments import micros
from jobboard.backends.rows import (
    ClaimAnswer,
    Consumption,
    JobRow,
    Lost,
    NewJob,
    Posted,
    PostOutcome,
    Refused,
    Trashing,
    Verdict,
)
from jobboard.states import JobState

End = TypeVar("End", Consumption, Trashing)

VERDICTS = {verdict.name.encode(): verdict for verdict in Verdict}
_STATES = {state.value.encode(): state for state in JobState}
_POST_OUTCOMES = {outcome.name.encode(): outcome for outcome in PostOutcome}

#: How many ends and postings one script takes, beside those of its first end.
_MAX_JOBS = 100


class EndsWithPosts:
    """Ends claims and posts, in one script for about a hundred jobs."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def finish(
        self, ends: Sequence[End], end_plainly: Callable[[Sequence[End]], list[ClaimAnswer]]
    ) -> list[ClaimAnswer]:
        """End these claims, each with what it posts; the answers have their order.

        :param end_plainly: ends those that post nothing.
        """
        answers: dict[int, ClaimAnswer] = {}
        plain = [number for number, end in enumerate(ends) if not _posts(end)]
        posting = [number for number, end in enumerate(ends) if _posts(end)]
        for part in parts_by_size(posting, lambda number: 1 + len(ends[number].posts), _MAX_JOBS):
            answers.update(zip(part, self._finish([ends[number] for number in part]), strict=True))
        if plain:
            answers.update(zip(plain, end_plainly([ends[number] for number in plain]), strict=True))
        return [answers[number] for number in range(len(ends))]

    def _finish(self, ends: Sequence[Consumption | Trashing]) -> Iterator[ClaimAnswer]:
        bodies = [new.body for end in ends for new in end.posts]
        _, now, answers = self._client.change("finish", pack([_end_parts(end) for end in ends]), *bodies)
        for end, answer in zip(ends, answers, strict=True):
            if isinstance(answer, list) and answer[0] == b"REFUSED":
                yield Refused(tuple(posted_of(end.posts, now, *answer[2:])))
            else:
                yield claim_answer(answer)


def _posts(end: Consumption | Trashing) -> bool:
    return bool(end.posts) or (isinstance(end, Consumption) and end.seal is not None)


def _end_parts(end: Consumption | Trashing) -> list[Any]:
    parts = [part for new in end.posts for part in posting_parts(new)]
    if isinstance(end, Consumption):
        result = False if end.result is None else end.result
        return [*fence_parts(end.fence), len(end.posts), parts, micros(end.retention), result, end.seal]
    fence = [end.uuid, end.by, None] if end.fence is None else fence_parts(end.fence)
    return [*fence, len(end.posts), parts, None, None, None, end.reason, end.error]


def posted_of(rows: Sequence[NewJob], now: int, codes: Sequence[Any], found: Sequence[Any]) -> list[Posted]:
    """Return what ``post.lua`` says of postings not all of which were posted just as sent."""
    others = iter(rows_of(found))
    posted = []
    for new, code in zip(rows, codes, strict=bool(codes)):
        if isinstance(code, int):
            posted.append(Posted(PostOutcome.POSTED, posted_row(new, code, now)))
        else:
            outcome, parent = code if isinstance(code, list) else (code, None)
            row = _with_body(next(others), new)
            posted.append(Posted(_POST_OUTCOMES[outcome], row, None if parent is None else text_of(parent)))
    return posted


def claim_answer(answer: bytes | list[bytes]) -> ClaimAnswer:
    """Return what ``fence.lua`` says of a claim: a verdict, or how the job stands whose claim is lost."""
    if isinstance(answer, bytes):
        return VERDICTS[answer]
    state, *owner = answer
    if state not in _STATES:
        return Verdict.LOST
    return Lost(_STATES[state], text_of(owner[0]) if owner else None)


def _with_body(row: JobRow, new: NewJob) -> JobRow:
    """A job that has ended, and is kept only for repeated requests, has lost its payload."""
    return row if row.body else replace(row, body=new.body)
