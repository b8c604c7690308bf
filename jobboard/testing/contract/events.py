"""Events: every subscriber hears of every client's changes, in order per job."""

from __future__ import annotations

import itertools
import threading
import uuid as uuids
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from jobboard.board import JobBoard
from jobboard.events import EventKind, JobEvent
from jobboard.job import Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, SHORT, Case, claim_one, needs, state_of
from jobboard.testing.deadline import eventually
from jobboard.testing.harness import Harness
from jobboard.testing.shortage import without_threads

K = EventKind


class ReceivedEvents:
    """What one subscription has received so far."""

    def __init__(self, board: JobBoard, kinds: Collection[EventKind] | None = None) -> None:
        self.events: list[JobEvent] = []
        self.end = board.subscribe(self.events.append, kinds)

    def kinds(self, uuid: str | None = None) -> list[EventKind]:
        return [event.kind for event in list(self.events) if uuid is None or event.uuid == uuid]

    def until(self, *kinds: EventKind, uuid: str | None = None) -> None:
        """Wait until exactly these events were received, of one job or of all."""
        eventually(lambda: len(self.kinds(uuid)) >= len(kinds))
        assert self.kinds(uuid) == list(kinds)


class EventCases(Case):
    def test_a_life_of_a_job_is_told_in_order(self, board: JobBoard, other: JobBoard) -> None:
        received = ReceivedEvents(board)
        job = other.post("resize")
        token = other.claim(job, "alice", LONG)
        other.extend(job, "alice", LONG)
        # Stores may tell only the last of several renewals and checkpoints that come at once.
        received.until(K.POSTED, K.CLAIMED, K.EXTENDED)
        other.checkpoint(job, "alice", "half")
        received.until(K.POSTED, K.CLAIMED, K.EXTENDED, K.CHECKPOINTED)
        other.abandon(job, "alice", reason="no disk here")
        later = other.claim(job, "bob", LONG)
        other.consume(job, "bob")
        received.until(K.POSTED, K.CLAIMED, K.EXTENDED, K.CHECKPOINTED, K.ABANDONED, K.CLAIMED, K.CONSUMED)
        events = received.events
        assert {(event.uuid, event.name) for event in events} == {(job.uuid, "resize")}
        assert [event.who for event in events[1:]] == ["alice"] * 4 + ["bob"] * 2
        assert [event.token for event in events[1:]] == [token] * 4 + [later] * 2
        assert events[4].reason == "no disk here"
        assert all(abs(event.at - datetime.now(UTC)) < timedelta(minutes=1) for event in events)

    def test_a_client_that_listens_misses_nothing_of_what_it_does_at_full_speed(self, board: JobBoard) -> None:
        received = ReceivedEvents(board)
        for _ in range(40):
            board.post("resize")
            board.consume(claim_one(board), "alice")
        eventually(lambda: len(received.events) >= 120)
        assert Counter(received.kinds()) == {K.POSTED: 40, K.CLAIMED: 40, K.CONSUMED: 40}

    def test_a_client_hears_itself(self, board: JobBoard) -> None:
        received = ReceivedEvents(board)
        job = board.post("resize")
        received.until(K.POSTED, uuid=job.uuid)

    def test_two_clients_hear_the_same(self, board: JobBoard, other: JobBoard) -> None:
        both = ReceivedEvents(board), ReceivedEvents(other)
        board.post("resize")
        other.trash(claim_one(other), "alice", reason="broken")
        for received in both:
            received.until(K.POSTED, K.CLAIMED, K.TRASHED)
            assert received.events[-1].reason == "broken"

    def test_operators_are_heard(self, board: JobBoard, other: JobBoard) -> None:
        kinds = [K.POSTED, K.REPLACED, K.CLAIMED, K.RELEASED, K.TRASHED, K.RESTORED, K.CANCEL_ASKED, K.CANCELLED]
        received = ReceivedEvents(board, kinds)
        job = other.post("resize", key="a")
        other.post("resize", key="a", if_exists="replace")
        other.claim(job, "alice", LONG)
        other.release(job, reason="its host is gone")
        other.trash(job, by="an operator", reason="runaway")
        other.restore(job.uuid)
        other.claim(other.get(job.uuid), "alice", LONG)
        other.cancel(job)
        other.abandon(other.get(job.uuid), "alice")
        received.until(
            K.POSTED, K.REPLACED, K.CLAIMED, K.RELEASED, K.TRASHED, K.RESTORED, K.CLAIMED, K.CANCEL_ASKED, K.CANCELLED,
            uuid=job.uuid,
        )  # fmt: skip
        assert received.events[3].reason == "its host is gone"

    def test_a_cancel_and_a_purge_are_heard(self, board: JobBoard, other: JobBoard) -> None:
        received = ReceivedEvents(board, [K.CANCELLED, K.PURGED])
        cancelled, purged = other.post("resize"), other.post("resize")
        other.cancel(cancelled)
        other.trash(purged, by="an operator")
        other.purge(purged.uuid)
        received.until(K.CANCELLED, uuid=cancelled.uuid)
        received.until(K.PURGED, uuid=purged.uuid)

    def test_an_event_has_the_token_of_the_claim_that_it_is_about(self, board: JobBoard, other: JobBoard) -> None:
        """A change of a job that nobody holds has no token, even if it was held before."""
        received = ReceivedEvents(board)
        job = other.post("resize", key="a")
        first = other.claim(job, "alice", LONG)
        other.abandon(job, "alice", delay=SHORT, reason="later")
        [again] = eventually(lambda: other.claim_next("bob", expiry=LONG))
        other.release(job, reason="its host is gone")
        replaced_by = other.post("resize", key="a", if_exists="replace", uuid=(new := str(uuids.uuid4())))
        other.trash(job, by="an operator", reason="runaway")
        other.restore(job.uuid)
        third = other.claim(job, "alice", LONG)
        other.trash(job, by="an operator", reason="again")
        history = [(line.kind, line.who, line.token, line.reason) for line in other.get(job.uuid).history]
        other.restore(job.uuid)
        fourth = other.claim(job, "alice", LONG)
        other.cancel(job)
        other.abandon(job, "alice", reason="as you like")
        until_trashed: list[tuple[EventKind, str | None, int | None, str | None]] = [
            (K.POSTED, None, None, None),
            (K.CLAIMED, "alice", first, None),
            (K.ABANDONED, "alice", first, "later"),
            (K.DUE, None, None, None),
            (K.CLAIMED, "bob", again.token, None),
            (K.RELEASED, "bob", again.token, "its host is gone"),
            (K.REPLACED, None, None, new),
            (K.TRASHED, "an operator", None, "runaway"),
            (K.RESTORED, None, None, None),
            (K.CLAIMED, "alice", third, None),
            (K.TRASHED, "an operator", third, "again"),
        ]
        assert (replaced_by, history) == (job, until_trashed)
        all_of_it = [
            *until_trashed,
            (K.RESTORED, None, None, None),
            (K.CLAIMED, "alice", fourth, None),
            (K.CANCEL_ASKED, "alice", fourth, None),
            (K.CANCELLED, "alice", fourth, "as you like"),
        ]
        eventually(lambda: len(received.events) >= len(all_of_it))
        assert [(event.kind, event.who, event.token, event.reason) for event in received.events] == all_of_it

    @pytest.mark.parametrize("kind", [K.CANCELLED, K.PURGED])
    def test_a_job_that_was_held_before_goes_without_a_token(
        self, board: JobBoard, other: JobBoard, kind: EventKind
    ) -> None:
        received = ReceivedEvents(board, [kind])
        job = other.post("resize")
        other.claim(job, "alice", LONG)
        if kind is K.CANCELLED:
            other.abandon(job, "alice")
            other.cancel(job)
        else:
            other.trash(job, "alice", reason="broken")
            other.purge(job.uuid)
        received.until(kind, uuid=job.uuid)
        assert [(event.who, event.token, event.reason) for event in received.events] == [(None, None, None)]

    @pytest.mark.parametrize("name", [None, "resize"])
    def test_a_pause_and_its_end_are_heard(self, board: JobBoard, other: JobBoard, name: str | None) -> None:
        received = ReceivedEvents(board)
        other.pause(name)
        other.resume(name)
        received.until(K.PAUSED, K.RESUMED)
        assert {(event.uuid, event.name) for event in received.events} == {(None, name)}

    @needs(expiry="time")
    def test_an_expiry_is_heard_once_somebody_looks(self, board: JobBoard, other: JobBoard) -> None:
        received = ReceivedEvents(board, [K.EXPIRED])
        job = other.post("resize")
        token = other.claim(job, "alice", SHORT)
        eventually(lambda: other.claim_next("bob", expiry=LONG))
        received.until(K.EXPIRED)
        assert (received.events[0].uuid, received.events[0].token) == (job.uuid, token)

    def test_a_due_delay_is_heard_once_somebody_looks(self, board: JobBoard, other: JobBoard) -> None:
        received = ReceivedEvents(board, [K.DUE])
        job = other.post("resize", delay=SHORT)
        eventually(lambda: other.claim_next("bob", expiry=LONG))
        received.until(K.DUE, uuid=job.uuid)

    def test_only_the_kinds_asked_for_are_heard(self, board: JobBoard, other: JobBoard) -> None:
        received = ReceivedEvents(board, {K.CONSUMED, K.POSTED})
        other.post("resize")
        other.consume(claim_one(other), "alice")
        received.until(K.POSTED, K.CONSUMED)

    def test_every_job_of_a_batch_is_heard(self, board: JobBoard, other: JobBoard) -> None:
        received = ReceivedEvents(board, [K.POSTED, K.CLAIMED, K.CONSUMED])
        jobs = other.post_many([Posting("resize") for _ in range(120)])
        other.consume_many(other.claim_next("alice", limit=120, expiry=LONG), "alice")
        eventually(lambda: len(received.events) >= 360)
        assert all(received.kinds(job.uuid) == [K.POSTED, K.CLAIMED, K.CONSUMED] for job in jobs)

    def test_an_ended_subscription_hears_nothing(self, board: JobBoard, other: JobBoard) -> None:
        ended, going = ReceivedEvents(board), ReceivedEvents(board)
        other.post("resize")
        ended.until(K.POSTED)
        ended.end()
        ended.end()
        other.post("resize")
        going.until(K.POSTED, K.POSTED)
        assert ended.kinds() == [K.POSTED]

    @pytest.mark.parametrize("allowed", [0, 1])
    def test_a_subscription_that_got_no_thread_can_be_made_again(
        self, board: JobBoard, other: JobBoard, allowed: int
    ) -> None:
        board.connect()
        begun = itertools.count()
        refused: list[JobEvent] = []
        with without_threads(lambda _: next(begun) >= allowed), suppress(RuntimeError):
            board.subscribe(refused.append)()
        received = ReceivedEvents(board)
        other.post("resize")
        received.until(K.POSTED)
        assert refused == []

    def test_refused_calls_are_not_heard(self, board: JobBoard, other: JobBoard) -> None:
        job = other.post("resize")
        other.claim(job, "alice", LONG)
        received = ReceivedEvents(board)
        for call in (board.consume, board.abandon, board.trash, board.extend):
            with pytest.raises(Exception, match="claim"):
                call(job.uuid, "bob")
        other.consume(job, "alice")
        received.until(K.CONSUMED)

    def test_a_callback_that_fails_or_blocks_harms_nobody(self, harness: Harness, board: JobBoard) -> None:
        blocked, go_on = threading.Event(), threading.Event()

        def fail(event: JobEvent) -> None:
            blocked.set()
            go_on.wait(30)
            raise RuntimeError("a callback's own fault")

        board.subscribe(fail)
        received = ReceivedEvents(harness.board(board.name))
        job = board.post("resize")
        assert blocked.wait(10)
        board.consume(claim_one(board), "alice")
        assert state_of(board, job) is JobState.COMPLETE
        received.until(K.POSTED, K.CLAIMED, K.CONSUMED)
        go_on.set()

    def test_a_callback_may_use_the_board(self, board: JobBoard, other: JobBoard) -> None:
        seen: list[JobState] = []
        board.subscribe(lambda event: seen.append(board.get(event.uuid or "").record.state), [K.TRASHED])
        other.post("resize")
        other.trash(claim_one(other), "alice")
        assert eventually(lambda: list(seen)) == [JobState.TRASHED]

    def test_boards_of_other_names_hear_nothing(self, harness: Harness, board: JobBoard) -> None:
        strange, received = ReceivedEvents(harness.board()), ReceivedEvents(board)
        board.post("resize")
        received.until(K.POSTED)
        assert strange.events == []

    def test_events_never_show_details(self, board: JobBoard) -> None:
        received = ReceivedEvents(board)
        board.post("resize", details={"password": "hunter2"})
        board.consume(claim_one(board), "alice", "hunter2")
        received.until(K.POSTED, K.CLAIMED, K.CONSUMED)
        assert "hunter2" not in repr(received.events)
