"""Arguments: a bad one is refused before any request; the smallest and the largest that are allowed are stored."""

from __future__ import annotations

import math
import uuid as uuids
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.job import Job, Posting
from jobboard.logbook import LogBook
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, SHORT, Case
from jobboard.testing.faults import LossyBackend
from jobboard.validation import MAX_COUNT, MAX_SECONDS

NAIVE = datetime(2040, 1, 1)
AWARE = datetime(2040, 1, 1, tzinfo=UTC)

TEXTS: list[Any] = ["", "a\nb", "\x00", "x" * 256, "ß" * 128, "\ud800", None, 7, b"bytes", ["a"]]
OPTIONAL_TEXTS = [text for text in TEXTS if text is not None]
EXPIRIES: list[Any] = [0, -1, -0.001, math.nan, -math.inf, 1e12, 10**400, "5", True, Decimal(5), [5]]
DELAYS: list[Any] = [-1, math.nan, math.inf, -math.inf, 1e12, 10**400, "5", True]
MOMENTS: list[Any] = [
    NAIVE, "2040-01-01T00:00:00Z", 2_000_000_000, datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
]  # fmt: skip
COUNTS: list[Any] = [0, -1, 1.5, "1", True, math.nan, 2**53, 2**100, 10**400]
TIMEOUTS: list[Any] = [-1, math.nan, 10**400, "5", True]
UUIDS: list[Any] = ["", "no uuid", 7, b"x" * 16]
NAMES: list[Any] = ["resize", 7, [""], [None], ["x" * 256], [b"resize"]]
DETAILS: list[Any] = [[], "text", 7, [("a", 1)]]

Call = Callable[[JobBoard, Job, Any], Any]


def _said_by(verb: str) -> Call:
    return lambda board, job, bad: getattr(board, verb)("resize" if verb in ("pause", "resume") else job, by=bad)


def _said_why(verb: str) -> Call:
    return lambda board, job, bad: getattr(board, verb)("resize" if verb in ("pause", "resume") else job, reason=bad)


#: Each call with the values that it must refuse; alice has claimed ``job``.
REFUSED: dict[str, tuple[Call, list[Any]]] = {
    "post(name)": (lambda board, job, bad: board.post(bad), TEXTS),
    "post(key)": (lambda board, job, bad: board.post("a", key=bad), OPTIONAL_TEXTS),
    "post(details)": (lambda board, job, bad: board.post("a", details=bad), DETAILS),
    "post(priority)": (lambda board, job, bad: board.post("a", priority=bad), [None, 3, 99, "urgent", 2.0]),
    "post(if_exists)": (lambda board, job, bad: board.post("a", key="k", if_exists=bad), ["ignore", "", None, 1]),
    "post(run_at)": (lambda board, job, bad: board.post("a", run_at=bad), MOMENTS),
    "post(delay)": (lambda board, job, bad: board.post("a", delay=bad), DELAYS),
    "post(run_at and delay)": (lambda board, job, bad: board.post("a", run_at=AWARE, delay=bad), [1, 0.0]),
    "post(uuid)": (lambda board, job, bad: board.post("a", uuid=bad), UUIDS),
    "post(max_attempts)": (lambda board, job, bad: board.post("a", max_attempts=bad), COUNTS),
    "post(book)": (lambda board, job, bad: board.post("a", book=bad), ["book", {"name": "book"}]),
    "post_many": (lambda board, job, bad: board.post_many([Posting("a"), bad]), ["a", None, {"name": "a"}, ("a",)]),
    "post_many(name)": (lambda board, job, bad: board.post_many([Posting("a"), Posting(bad)]), TEXTS),
    "cancel(job)": (lambda board, job, bad: board.cancel(bad), [*UUIDS, None]),
    "claim(job)": (lambda board, job, bad: board.claim(bad, "bob"), [*UUIDS, None]),
    "claim(who)": (lambda board, job, bad: board.claim(job, bad), TEXTS),
    "claim(expiry)": (lambda board, job, bad: board.claim(job, "bob", bad), EXPIRIES),
    "claim_next(who)": (lambda board, job, bad: board.claim_next(bad), TEXTS),
    "claim_next(names)": (lambda board, job, bad: board.claim_next("bob", bad), NAMES),
    "claim_next(limit)": (lambda board, job, bad: board.claim_next("bob", limit=bad), [*COUNTS, None]),
    "claim_next(expiry)": (lambda board, job, bad: board.claim_next("bob", expiry=bad), EXPIRIES),
    "extend(who)": (lambda board, job, bad: board.extend(job, bad), TEXTS),
    "extend(expiry)": (lambda board, job, bad: board.extend(job, "alice", bad), EXPIRIES),
    "extend_many(who)": (lambda board, job, bad: board.extend_many([job], bad), TEXTS),
    "extend_many(expiry)": (lambda board, job, bad: board.extend_many([job], "alice", bad), EXPIRIES),
    "job.extend_expiry": (lambda board, job, bad: job.extend_expiry(bad), [*EXPIRIES, None]),
    "consume(who)": (lambda board, job, bad: board.consume(job, bad), TEXTS),
    "consume(token)": (lambda board, job, bad: board.consume(job, "alice", token=bad), ["1", 1.0, True, 0, 2**63]),
    "consume_many(who)": (lambda board, job, bad: board.consume_many([job], bad), TEXTS),
    "abandon(who)": (lambda board, job, bad: board.abandon(job, bad), TEXTS),
    "abandon(delay)": (lambda board, job, bad: board.abandon(job, "alice", delay=bad), [*DELAYS, None]),
    "abandon(run_at)": (lambda board, job, bad: board.abandon(job, "alice", run_at=bad), MOMENTS),
    "abandon(both)": (lambda board, job, bad: board.abandon(job, "alice", run_at=AWARE, delay=bad), [1]),
    "abandon(reason)": (lambda board, job, bad: board.abandon(job, "alice", reason=bad), [7, b"bytes"]),
    "abandon(error)": (lambda board, job, bad: board.abandon(job, "alice", error=bad), [7, ValueError("x")]),
    "trash(who)": (lambda board, job, bad: board.trash(job, bad), OPTIONAL_TEXTS),
    "trash(who and by)": (lambda board, job, bad: board.trash(job, "alice", by=bad), ["ada"]),  # type: ignore[call-overload]
    "trash(token)": (lambda board, job, bad: board.trash(job, token=bad), [1]),  # type: ignore[call-overload]
    "trash(reason)": (lambda board, job, bad: board.trash(job, "alice", reason=bad), [7, b"bytes"]),
    "checkpoint(who)": (lambda board, job, bad: board.checkpoint(job, bad, 1), TEXTS),
    "checkpoint(state)": (lambda board, job, bad: board.checkpoint(job, "alice", bad), [print, {1: 2}, NAIVE, 2**64]),
    "wait(timeout)": (lambda board, job, bad: board.wait(bad), TIMEOUTS),
    "wait(names)": (lambda board, job, bad: board.wait(0, bad), NAMES),
    "job.wait": (lambda board, job, bad: job.wait(bad), TIMEOUTS),
    "iterjobs(names)": (lambda board, job, bad: board.iterjobs(names=bad), NAMES),
    "iterjobs(states)": (lambda board, job, bad: board.iterjobs(states=bad), ["CLAIMED", ["claimed"], [7]]),
    "get": (lambda board, job, bad: board.get(bad), [*UUIDS, None]),
    "find(name)": (lambda board, job, bad: board.find(bad, "k"), TEXTS),
    "find(key)": (lambda board, job, bad: board.find("a", bad), TEXTS),
    "find_owner": (lambda board, job, bad: board.find_owner(bad), [*UUIDS, None]),
    "subscribe(callback)": (lambda board, job, bad: board.subscribe(bad), [None, "print", 7]),
    "subscribe(kinds)": (lambda board, job, bad: board.subscribe(print, bad), [["posted"], [7], "POSTED"]),
    "release(job)": (lambda board, job, bad: board.release(bad, reason="x"), [*UUIDS, None]),
    "run_now": (lambda board, job, bad: board.run_now(bad), [*UUIDS, None]),
    "reprioritize(job)": (lambda board, job, bad: board.reprioritize(bad, "low"), [*UUIDS, None]),
    "reprioritize(priority)": (lambda board, job, bad: board.reprioritize(job, bad), [3, None, "urgent"]),
    "reprioritize(by)": (lambda board, job, bad: board.reprioritize(job, "low", by=bad), OPTIONAL_TEXTS),
    "reprioritize(reason)": (lambda board, job, bad: board.reprioritize(job, "low", reason=bad), [7, b"bytes"]),
    "restore": (lambda board, job, bad: board.restore(bad), [*UUIDS, None]),
    "purge": (lambda board, job, bad: board.purge(bad), [*UUIDS, None]),
    "pause": (lambda board, job, bad: board.pause(bad), OPTIONAL_TEXTS),
    "resume": (lambda board, job, bad: board.resume(bad), OPTIONAL_TEXTS),
    "register_entity": (lambda board, job, bad: board.register_entity(bad), [None, "conductor", {"kind": "a"}]),
    "save_book": (lambda board, job, bad: board.save_book(bad), [None, "book", {"name": "book"}]),
    "save_book hold": (lambda board, job, bad: board.save_book(LogBook("b"), hold=bad), ["alice", 1]),
    "load_book": (lambda board, job, bad: board.load_book(bad), [*UUIDS, None]),
    "destroy_book": (lambda board, job, bad: board.destroy_book(bad), [*UUIDS, None]),
    "connect": (lambda board, job, bad: board.connect(bad), [0, -1, math.nan, 10**400, "5", None]),
}
for _verb in ("cancel", "release", "run_now", "trash", "restore", "purge", "pause", "resume"):
    REFUSED[f"{_verb}(by)"] = (_said_by(_verb), OPTIONAL_TEXTS)
    REFUSED[f"{_verb}(reason)"] = (_said_why(_verb), [7, b"bytes"])


class ArgumentCases(Case):
    def test_a_bad_argument_is_refused_before_any_request(self, client: tuple[JobBoard, LossyBackend]) -> None:
        board, backend = client
        job = board.post("resize", key="k", details={"n": 1})
        board.claim(job, "alice", LONG)
        sent = dict(backend.calls)
        for call, (ask, values) in REFUSED.items():
            for value in values:
                with pytest.raises((TypeError, ValueError)):
                    ask(board, job, value)
            assert dict(backend.calls) == sent, call
        board.consume(job, "alice")

    @pytest.mark.parametrize(
        "extreme",
        [
            {"max_attempts": MAX_COUNT},
            {"run_at": datetime(1, 1, 1, tzinfo=UTC)},
            {"run_at": datetime(9999, 12, 31, tzinfo=UTC)},
            {"delay": MAX_SECONDS},
        ],
        ids=str,
    )
    def test_the_smallest_and_the_largest_values_that_are_allowed_are_stored(
        self, board: JobBoard, extreme: dict[str, Any]
    ) -> None:
        job = board.post("resize", **extreme)
        seen = board.get(job.uuid)
        assert (seen.max_attempts, seen.run_at) == (job.max_attempts, job.run_at)
        assert seen.max_attempts == extreme.get("max_attempts")
        if "run_at" in extreme:
            assert seen.run_at == extreme["run_at"]
        if seen.record.state is JobState.UNCLAIMED:
            board.claim(job, "alice", MAX_SECONDS)
            board.abandon(job, "alice", delay=MAX_SECONDS)
        assert board.claim_next("bob", limit=MAX_COUNT) == []
        assert (job.wait(0), job.record.state) == (False, JobState.DELAYED)

    @pytest.mark.parametrize("timeout", [1e12, 1e300, math.inf])
    def test_a_very_long_wait_has_no_end(self, board: JobBoard, timeout: float) -> None:
        job = board.post("resize", delay=SHORT)
        assert list(board.wait(timeout)) == [job]
        board.trash(job, by="an operator")
        assert job.wait(timeout) is False

    def test_uuids_are_found_in_every_form(self, board: JobBoard) -> None:
        uuid = uuids.uuid4()
        job = board.post("resize", uuid=uuid.hex)
        for form in (uuid, str(uuid), uuid.hex, str(uuid).upper(), "{" + str(uuid) + "}", uuid.urn):
            assert board.get(form) == job  # type: ignore[arg-type,unused-ignore]
