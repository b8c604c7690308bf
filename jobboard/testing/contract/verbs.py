"""The operators' verbs have one shape: a handle or a uuid, by whom, and why. Histories and events tell both."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobboard.backends.reasons import ahead_of_time, by_whom, released, to_priority
from jobboard.backends.rows import Pause
from jobboard.board import JobBoard
from jobboard.events import EventKind
from jobboard.job import Job
from jobboard.states import JobPriority
from jobboard.testing.contract.case import LONG, Case
from jobboard.testing.contract.events import Heard
from jobboard.testing.deadline import eventually

K = EventKind

#: Who, and why, in texts that a store could spoil.
ADA, WHY = "größe 'ada' {a}*", 'its "disk"\n is full: 100 % \\'


@dataclass(frozen=True)
class Verb:
    """What a verb needs, what it does, and what is told of it: who, and why."""

    prepare: Callable[[JobBoard], Job]
    act: Callable[..., object]
    kind: EventKind
    told: Callable[[str | None, str | None], tuple[str | None, str | None]]
    #: Whether the job has a history afterwards.
    stays: bool = True


def _posted(board: JobBoard) -> Job:
    return board.post("resize")


def _delayed(board: JobBoard) -> Job:
    return board.post("resize", delay=LONG)


def _claimed(board: JobBoard) -> Job:
    job = board.post("resize")
    board.claim(job, "alice", LONG)
    return job


def _trashed(board: JobBoard) -> Job:
    job = board.post("resize")
    board.trash(job)
    return job


def _lower(board: JobBoard, job: Any, **said: Any) -> object:
    return board.reprioritize(job, "low", **said)


VERBS = {
    "cancel": Verb(_posted, JobBoard.cancel, K.CANCELLED, lambda by, why: (by, why), stays=False),
    "cancel what is claimed": Verb(
        _claimed, JobBoard.cancel, K.CANCEL_ASKED, lambda by, why: ("alice", by_whom(by, why))
    ),
    "release": Verb(_claimed, JobBoard.release, K.RELEASED, lambda by, why: ("alice", released(by, why))),
    "trash": Verb(_claimed, JobBoard.trash, K.TRASHED, lambda by, why: (by, why)),
    "restore": Verb(_trashed, JobBoard.restore, K.RESTORED, lambda by, why: (by, why)),
    "purge": Verb(_trashed, JobBoard.purge, K.PURGED, lambda by, why: (by, why), stays=False),
    "run_now": Verb(_delayed, JobBoard.run_now, K.DUE, lambda by, why: (by, ahead_of_time(why))),
    "reprioritize": Verb(
        _posted, _lower, K.REPRIORITIZED, lambda by, why: (by, to_priority(JobPriority.LOW, why))
    ),
}  # fmt: skip


class VerbCases(Case):
    @pytest.mark.parametrize("name", VERBS)
    def test_a_verb_takes_a_handle_or_a_uuid_and_tells_by_whom_and_why(
        self, board: JobBoard, other: JobBoard, name: str
    ) -> None:
        verb = VERBS[name]
        jobs = [verb.prepare(board) for _ in range(4)]
        heard = Heard(board, [verb.kind])
        verb.act(other, other.get(jobs[0].uuid), by=ADA, reason=WHY)
        verb.act(other, jobs[1].uuid, by=ADA)
        verb.act(other, uuids.UUID(jobs[2].uuid), reason=WHY)
        verb.act(other, jobs[3])
        expected = [verb.told(by, why) for by in (ADA, None) for why in (WHY, None)]
        expected[1:3] = verb.told(ADA, None), verb.told(None, WHY)
        eventually(lambda: len(heard.events) >= len(jobs))
        told = {event.uuid: (event.who, event.reason) for event in heard.events}
        assert [told[job.uuid] for job in jobs] == expected
        if verb.stays:
            lines = [other.get(job.uuid).history[-1] for job in jobs]
            assert [(line.kind, line.who, line.reason) for line in lines] == [(verb.kind, *each) for each in expected]


class PauseTellingCases(Case):
    def test_a_pause_tells_by_whom_since_when_and_why(self, board: JobBoard, other: JobBoard) -> None:
        heard = Heard(board, [K.PAUSED])
        other.pause("resize", by=ADA, reason=WHY)
        other.pause()
        pauses = board.pauses()
        assert [(pause.name, pause.by, pause.reason) for pause in pauses] == [(None, None, None), ("resize", ADA, WHY)]
        for pause in pauses:
            assert pause.at is not None
            assert abs(datetime.now(UTC) - pause.at) < timedelta(minutes=5)
        eventually(lambda: len(heard.events) == 2)
        told = [(event.name, event.who, event.reason) for event in heard.events]
        assert told == [("resize", ADA, WHY), (None, None, None)]
        board.resume(by=ADA)
        assert other.pauses() == pauses[1:]
        board.resume("resize", by=ADA, reason=WHY)
        assert (other.pauses(), board.paused()) == ([], set())

    def test_a_pause_of_what_is_paused_keeps_what_the_first_one_said(self, board: JobBoard, other: JobBoard) -> None:
        heard = Heard(board, [K.PAUSED, K.POSTED])
        board.pause("resize", by=ADA, reason=WHY)
        first = board.pauses()
        other.pause("resize", by="bob", reason="another one")
        assert board.pauses() == other.pauses() == first
        board.post("resize")
        heard.until(K.PAUSED, K.POSTED)

    def test_a_new_pause_tells_nothing_of_an_earlier_one(self, board: JobBoard, other: JobBoard) -> None:
        board.pause("resize", by=ADA, reason=WHY)
        board.pause("resize/2", by="bob")
        board.resume("resize")
        other.pause("resize", by="bob")
        assert [(pause.name, pause.by, pause.reason) for pause in board.pauses()] == [
            ("resize", "bob", None), ("resize/2", "bob", None),
        ]  # fmt: skip
        other.resume("resize")
        other.pause("resize")
        assert [Pause(pause.name, pause.by, pause.reason) for pause in board.pauses()] == [
            Pause("resize"), Pause("resize/2", "bob"),
        ]  # fmt: skip
