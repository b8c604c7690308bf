"""The operators' verbs have one shape: a handle or a uuid, by whom, and why. Histories and events tell both."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from jobboard.backends.reasons import ahead_of_time, by_whom, released, to_priority
from jobboard.backends.rows import Pause
from jobboard.board import JobBoard
from jobboard.events import EventKind
from jobboard.job import Job
from jobboard.states import JobPriority
from jobboard.testing.contract.case import LONG, Case
from jobboard.testing.contract.events import ReceivedEvents
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import LossyBackend
from jobboard.validation import MAX_TEXT, check_reason

K = EventKind

#: Who, and why, in texts that a store could spoil.
ADA, WHY = "größe 'ada' {a}*", 'its "disk"\n is full: 100 % \\'

#: A long name of an operator; and reasons that a store could refuse, of which the last one is too long for some.
LONG_NAME = "ß" * 60
STRANGE = ["a\0b", "\ud800 and \udfff", "begin " + "x" * 399_990 + " end"]

#: Names that a collation, or a key, could take for each other.
ALIKE = ["mail", "Mail", "mail ", " mail", "máil", "mai\u0301l", "ma\u00adil", "mail/", "mail%2F", "ss", "ß", "board",
         "None", "%", "*", "mail\u2028", "m" * MAX_TEXT]  # fmt: skip


def is_told(text: str | None, reason: str) -> bool:
    """Whether a text tells a reason; a store may leave out the middle of a long one, and may have to spell a NUL."""
    wanted, said = check_reason(reason) or "", (text or "").replace("\\x00", "\0")
    return wanted in said or (wanted[:50] in said and wanted[-4:] in said[-len(LONG_NAME) - 10 :])


@dataclass(frozen=True)
class Verb:
    """What a verb needs, what it does, and what is told of it: who, and why."""

    prepare: Callable[[JobBoard], Job]
    method: str
    kind: EventKind
    told: Callable[[str | None, str | None], tuple[str | None, str | None]]
    #: Whether the job has a history afterwards.
    stays: bool = True
    #: What the method needs beside the job.
    others: tuple[str, ...] = ()


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


VERBS = {
    "cancel": Verb(_posted, "cancel", K.CANCELLED, lambda by, why: (by, why), stays=False),
    "cancel what is claimed": Verb(
        _claimed, "cancel", K.CANCEL_ASKED, lambda by, why: ("alice", by_whom(by, why))
    ),
    "release": Verb(_claimed, "release", K.RELEASED, lambda by, why: ("alice", released(by, why))),
    "trash": Verb(_claimed, "trash", K.TRASHED, lambda by, why: (by, why)),
    "restore": Verb(_trashed, "restore", K.RESTORED, lambda by, why: (by, why)),
    "purge": Verb(_trashed, "purge", K.PURGED, lambda by, why: (by, why), stays=False),
    "run_now": Verb(_delayed, "run_now", K.DUE, lambda by, why: (by, ahead_of_time(why))),
    "reprioritize": Verb(
        _posted, "reprioritize", K.REPRIORITIZED, lambda by, why: (by, to_priority(JobPriority.LOW, why)),
        others=("low",),
    ),
}  # fmt: skip


class VerbCases(Case):
    @pytest.mark.parametrize("name", VERBS)
    def test_a_verb_takes_a_handle_or_a_uuid_and_tells_by_whom_and_why(
        self, board: JobBoard, other: JobBoard, name: str
    ) -> None:
        verb = VERBS[name]
        jobs = [verb.prepare(board) for _ in range(4)]
        received = ReceivedEvents(board, [verb.kind])
        act = getattr(other, verb.method)
        act(other.get(jobs[0].uuid), *verb.others, by=ADA, reason=WHY)
        act(jobs[1].uuid, *verb.others, by=ADA)
        act(uuids.UUID(jobs[2].uuid), *verb.others, reason=WHY)
        act(jobs[3], *verb.others)
        expected = [verb.told(by, why) for by in (ADA, None) for why in (WHY, None)]
        expected[1:3] = verb.told(ADA, None), verb.told(None, WHY)
        eventually(lambda: len(received.events) >= len(jobs))
        told = {event.uuid: (event.who, event.reason) for event in received.events}
        assert [told[job.uuid] for job in jobs] == expected
        if verb.stays:
            lines = [other.get(job.uuid).history[-1] for job in jobs]
            assert [(line.kind, line.who, line.reason) for line in lines] == [(verb.kind, *each) for each in expected]

    def test_cancels_by_key_tell_by_whom_and_why(self, board: JobBoard, other: JobBoard) -> None:
        claimed = board.post("resize", key="invoice/4")
        board.claim(claimed, "alice", LONG)
        jobs = [board.post("resize", key=key) for key in ("invoice/7", "order/1", "order/2", "order/3")]
        received = ReceivedEvents(board, [K.CANCELLED])
        assert other.cancel_by_key("resize", key="invoice/4", by=ADA, reason=WHY) == 1
        assert other.cancel_by_key("resize", key="invoice/7", by=ADA, reason=WHY) == 1
        assert other.cancel_by_key("resize", prefix="order/", by=ADA, reason=WHY) == 3
        eventually(lambda: len(received.events) >= len(jobs))
        told = {event.uuid: (event.who, event.reason) for event in received.events}
        assert told == {job.uuid: (ADA, WHY) for job in jobs}
        line = board.get(claimed.uuid).history[-1]
        assert (line.kind, line.who, line.reason) == (K.CANCEL_ASKED, "alice", by_whom(ADA, WHY))

    @pytest.mark.parametrize("reason", STRANGE, ids=["NUL", "lone surrogates", "longest"])
    def test_any_reason_is_taken_and_by_is_told_beside_it(self, board: JobBoard, other: JobBoard, reason: str) -> None:
        board.pause("crop", by=LONG_NAME, reason=reason)
        (pause,) = other.pauses()
        assert (pause.by, is_told(pause.reason, reason)) == (LONG_NAME, True)
        for verb in VERBS.values():
            job = verb.prepare(board)
            received = ReceivedEvents(board, [verb.kind])
            getattr(other, verb.method)(job, *verb.others, by=LONG_NAME, reason=reason)
            received.until(verb.kind)
            who, _ = verb.told(LONG_NAME, reason)
            assert received.events[0].who == who
            assert is_told(received.events[0].reason, reason)
            if verb.stays:
                line = other.get(job.uuid).history[-1]
                assert (line.kind, line.who, is_told(line.reason, reason)) == (verb.kind, who, True)
            received.end()

    def test_what_is_done_already_keeps_what_the_first_one_said(self, board: JobBoard, other: JobBoard) -> None:
        asked, trashed, early = _claimed(board), _posted(board), _delayed(board)
        for client, by in ((board, "ada"), (other, "bob")):
            client.cancel(asked.uuid, by=by, reason=by)
            client.trash(trashed.uuid, by=by, reason=by)
            client.run_now(early.uuid, by=by, reason=by)
            client.reprioritize(early.uuid, "low", by=by, reason=by)
        lines = [
            [(line.kind, line.who, line.reason) for line in board.get(job.uuid).history[-2:]]
            for job in (asked, trashed, early)
        ]
        assert [told[-1] for told in lines[:2]] == [
            (K.CANCEL_ASKED, "alice", by_whom("ada", "ada")), (K.TRASHED, "ada", "ada"),
        ]  # fmt: skip
        assert [len(board.get(job.uuid).history) for job in (asked, trashed, early)] == [3, 2, 3]
        assert lines[2] == [
            (K.DUE, "ada", ahead_of_time("ada")),
            (K.REPRIORITIZED, "ada", to_priority(JobPriority.LOW, "ada")),
        ]

    def test_what_is_sent_again_after_a_lost_reply_is_told_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        cancelled, purged = _posted(board), _trashed(board)
        received = ReceivedEvents(other, [K.CANCELLED, K.PURGED, K.PAUSED, K.RESUMED, K.POSTED])
        for primitive in ("cancel", "purge", "maintenance.pause", "maintenance.resume"):
            lossy.lose(primitive)
        board.cancel(cancelled, by="ada", reason="not wanted")
        board.purge(purged, by="bob", reason="too old")
        board.pause("crop", by="eve", reason="a full disk")
        board.resume("crop")
        _posted(board)
        received.until(K.CANCELLED, K.PURGED, K.PAUSED, K.RESUMED, K.POSTED)
        assert [(event.who, event.reason) for event in received.events[:3]] == [
            ("ada", "not wanted"), ("bob", "too old"), ("eve", "a full disk"),
        ]  # fmt: skip


class PauseTellingCases(Case):
    def test_names_that_look_alike_have_pauses_of_their_own(self, board: JobBoard, other: JobBoard) -> None:
        for name in ALIKE:
            board.pause(name, by=f"by {name}"[:80], reason=f"of {name}"[:80])
        said = {pause.name: (pause.by, pause.reason) for pause in other.pauses()}
        assert said == {name: (f"by {name}"[:80], f"of {name}"[:80]) for name in ALIKE}
        other.resume(ALIKE[0])
        del said[ALIKE[0]]
        assert {pause.name: (pause.by, pause.reason) for pause in board.pauses()} == said
        assert other.paused() == set(ALIKE[1:])

    def test_a_pause_tells_by_whom_since_when_and_why(self, board: JobBoard, other: JobBoard) -> None:
        received = ReceivedEvents(board, [K.PAUSED])
        other.pause("resize", by=ADA, reason=WHY)
        other.pause()
        pauses = board.pauses()
        assert [(pause.name, pause.by, pause.reason) for pause in pauses] == [(None, None, None), ("resize", ADA, WHY)]
        for pause in pauses:
            assert pause.at is not None
            assert abs(datetime.now(UTC) - pause.at) < timedelta(minutes=5)
        eventually(lambda: len(received.events) == 2)
        told = [(event.name, event.who, event.reason) for event in received.events]
        assert told == [("resize", ADA, WHY), (None, None, None)]
        board.resume(by=ADA)
        assert other.pauses() == pauses[1:]
        board.resume("resize", by=ADA, reason=WHY)
        assert (other.pauses(), board.paused()) == ([], set())

    def test_a_pause_of_what_is_paused_keeps_what_the_first_one_said(self, board: JobBoard, other: JobBoard) -> None:
        received = ReceivedEvents(board, [K.PAUSED, K.POSTED])
        board.pause("resize", by=ADA, reason=WHY)
        first = board.pauses()
        other.pause("resize", by="bob", reason="another one")
        assert board.pauses() == other.pauses() == first
        board.post("resize")
        received.until(K.PAUSED, K.POSTED)

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
