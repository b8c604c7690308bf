"""A Hypothesis state machine: random histories on a real backend, compared with a small model after every step.

Derive from :class:`BoardMachine`, say how to open a harness, and let pytest find its ``TestCase``::

    class MyMachine(BoardMachine):
        def open_harness(self):
            return MyHarness()

    TestMyStore = MyMachine.TestCase
    TestMyStore.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)

No claim expires and no delay ends here, so that every history is deterministic.
"""

from __future__ import annotations

import abc
import math
from typing import Any, Literal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
)

from jobboard.board import JobBoard
from jobboard.errors import AlreadyPosted, ClaimLost, InvalidPosting, NotFound, UnclaimableJob
from jobboard.events import EventKind, HistoryEntry
from jobboard.job import Job, Posting
from jobboard.states import LIVE, JobPriority, JobState
from jobboard.testing.harness import Harness
from jobboard.testing.machine_edges import EdgeSteps
from jobboard.testing.machine_values import (
    FAR,
    FEW,
    LANES,
    NAMES,
    clients,
    contents,
    filters,
    keys,
    lanes,
    mosts,
    names,
    owners,
    picks,
    priorities,
)
from jobboard.testing.model import Model, ModelJob

ENDS = ["extend", "checkpoint", "consume", "trash", "abandon", "abandon uncounted", "abandon for later"]
CALLS = ["post_again", "cancel", "release", "trash", "restore", "restore", "purge", "reprioritize", "run_now"]

#: Who does what operators do, and why.
saids = st.tuples(st.none() | owners, st.sampled_from([None, "", "why", 'größer, "später" 100%']))
how_existing = st.sampled_from(["raise", "keep", "replace"])


class BoardMachine(EdgeSteps):
    """Two clients of one board, and the model of what they have done."""

    @abc.abstractmethod
    def open_harness(self) -> Harness:
        """Return a harness of the store; it is closed at the end of each history."""

    @initialize()
    def open(self) -> None:
        self.harness = self.open_harness()
        first = self.harness.board()
        self.boards = [first, self.harness.board(first.name)]
        #: Never claims, so that it knows no tokens.
        self.stranger = self.harness.board(first.name)
        self.model = Model()
        #: Every claim that was ever made: its handle, and by whom.
        self.claims: list[tuple[Job, str]] = []
        self.post_many(0, [(name, JobPriority.NORMAL, number, None) for number, name in enumerate(NAMES)])

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.close()

    def _any(self, pick: int) -> ModelJob:
        jobs = sorted(self.model.jobs.values(), key=lambda job: job.number)
        return jobs[pick % len(jobs)]

    # -- producers -------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.model.in_order()) < FEW)
    @rule(
        client=clients, name=names, priority=priorities, content=contents, most=mosts, delayed=st.booleans(),
        lane=lanes,
    )  # fmt: skip
    def post(
        self,
        client: int,
        name: str,
        priority: JobPriority,
        content: int,
        most: int | None,
        delayed: bool,
        lane: str | None,
    ) -> None:
        lane = self._lane(lane)
        job = self.boards[client].post(
            name, {"n": content}, priority=priority, max_attempts=most, delay=FAR if delayed else None, lane=lane
        )
        self.model.post(job.uuid, name, None, priority, content, most, delayed, lane)

    @precondition(lambda self: len(self.model.in_order()) < FEW)
    @rule(client=clients, batch=st.lists(st.tuples(names, priorities, contents, lanes), min_size=1, max_size=4))
    def post_many(self, client: int, batch: list[tuple[str, JobPriority, int, str | None]]) -> None:
        postings = [
            Posting(name, details={"n": content}, priority=priority, lane=self._lane(lane))
            for name, priority, content, lane in batch
        ]
        for job, (name, priority, content, lane) in zip(self.boards[client].post_many(postings), batch, strict=True):
            self.model.post(job.uuid, name, None, priority, content, None, False, self._lane(lane))

    @rule(
        client=clients, name=names, key=keys, priority=priorities, content=contents, most=mosts,
        delayed=st.booleans(), if_exists=how_existing, lane=lanes,
    )  # fmt: skip
    def post_key(
        self,
        client: int,
        name: str,
        key: str,
        priority: JobPriority,
        content: int,
        most: int | None,
        delayed: bool,
        if_exists: Literal["raise", "keep", "replace"],
        lane: str | None,
    ) -> None:
        live, lane = self.model.with_key(name, key), self._lane(lane)

        def post() -> Job:
            return self.boards[client].post(
                name, {"n": content}, priority=priority, key=key, if_exists=if_exists, delay=FAR if delayed else None,
                max_attempts=most, lane=lane,
            )  # fmt: skip

        if live is None:
            self.model.post(post().uuid, name, key, priority, content, most, delayed, lane)
        elif if_exists == "keep":
            assert post().uuid == live.uuid
        elif if_exists == "raise" or live.state is JobState.CLAIMED:
            with pytest.raises(AlreadyPosted) as caught:
                post()
            assert caught.value.uuid == live.uuid
        elif lane != live.lane:
            with pytest.raises(InvalidPosting):
                post()
        else:
            assert post().uuid == live.uuid
            live.priority, live.content, live.max_attempts = priority, content, most
            self.model.join(live, delayed)

    # -- consumers -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.jobs)
    @rule(client=clients, pick=picks, who=owners)
    def claim(self, client: int, pick: int, who: str) -> None:
        board, claimable = self.boards[client], self.model.claimable(None, FEW)
        job = claimable[pick % len(claimable)] if claimable and pick % 4 else self._any(pick)
        handle = board.get(job.uuid)
        if self.model.is_claimable(job):
            self.model.claim(job, who, board.claim(handle, who, math.inf))
            self.claims.append((handle, who))
        else:
            with pytest.raises(UnclaimableJob) as caught:
                board.claim(handle, who, math.inf)
            assert caught.value.owner == (job.owner if job.state is JobState.CLAIMED else None)

    @rule(client=clients, who=owners, wanted=filters, limit=st.integers(1, 4))
    def claim_next(self, client: int, who: str, wanted: set[str] | None, limit: int) -> None:
        expected = self.model.claimable(wanted, limit)
        claimed = self.boards[client].claim_next(who, wanted, limit, math.inf)
        first = {handle.uuid: handle for handle in claimed}
        assert [uuid for uuid in first if uuid in {job.uuid for job in expected}] == [job.uuid for job in expected]
        for job in expected:
            self._claimed(first.pop(job.uuid), job, who)
        if len(expected) < limit:
            self._exchange(wanted)
        for uuid, handle in first.items():
            assert self.model.is_claimable(self.model.jobs[uuid])
            self._claimed(handle, self.model.jobs[uuid], who)

    def _exchange(self, wanted: set[str] | None) -> None:
        shown = {job.uuid: job.record.state for job in self.stranger.iterjobs()}
        lanes = [lane for lane in LANES if self.model.can_exchange(lane, wanted)]
        numbers = [self.model.exchange(lane, wanted, shown) for lane in lanes]
        assert any(numbers) or not lanes

    def _claimed(self, handle: Job, job: ModelJob, who: str) -> None:
        assert (handle.uuid, handle.details) == (job.uuid, {"n": job.content})
        self.model.claim(job, who, handle.token or 0)
        self.claims.append((handle, who))

    def _end(self, pick: int, call: Any) -> ModelJob | None:
        """Make a call under any claim that ever was; return the job if the claim held."""
        handle, who = self._any_claim(pick)
        job = self.model.holds(handle.uuid, who, handle.token or 0)
        if job is None:
            with pytest.raises(ClaimLost):
                call(handle.board, handle, who)
        else:
            call(handle.board, handle, who)
        return job

    @precondition(lambda self: self.claims)
    @rule(pick=picks, end=st.sampled_from(ENDS), value=contents)
    def end(self, pick: int, end: str, value: int) -> None:
        """Use any claim that ever was: it is refused unless it is the one that holds."""
        handle, who = self._any_claim(pick)
        board, job = self.boards[value % 2], self.model.holds(handle.uuid, who, handle.token or 0)
        counted = end != "abandon uncounted" and not (job is not None and job.cancel_asked)

        def call() -> None:
            if end == "extend":
                board.extend(handle, who, math.inf)
            elif end == "checkpoint":
                board.checkpoint(handle, who, value)
            elif end == "consume":
                board.consume(handle, who, value)
            elif end == "trash":
                board.trash(handle, who, reason="broken")
            else:
                board.abandon(handle, who, delay=FAR if end == "abandon for later" else 0.0, counted=counted)

        if job is None:
            with pytest.raises(ClaimLost):
                call()
            return
        call()
        if end == "checkpoint":
            job.checkpoint = value
        elif end == "consume":
            job.end_claim(JobState.COMPLETE)
            job.result = value
        elif end == "trash":
            job.end_claim(JobState.TRASHED)
        elif end.startswith("abandon"):
            self.model.abandon(job, counted=counted, delayed=end == "abandon for later")

    @precondition(lambda self: self.claims)
    @rule(pick=picks, who=owners)
    def consume_as_a_stranger(self, pick: int, who: str) -> None:
        handle, owner = self._any_claim(pick)
        token = (handle.token or 0) + (10**9 if who == owner else 0)
        with pytest.raises(ClaimLost):
            self.stranger.consume(handle.uuid, who, token=token)

    # -- operators -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.jobs)
    @rule(client=clients, pick=picks, call=st.sampled_from(CALLS), said=saids)
    def operate(self, client: int, pick: int, call: str, said: tuple[str | None, str | None]) -> None:
        self._operate(client, self._any(pick), call, said)

    @precondition(lambda self: self.model.parents())
    @rule(client=clients, pick=picks, call=st.sampled_from(["trash", "restore", "purge", "cancel"]), said=saids)
    def operate_on_a_parent(self, client: int, pick: int, call: str, said: tuple[str | None, str | None]) -> None:
        parents = self.model.parents()
        self._operate(client, parents[pick % len(parents)], call, said)

    def _operate(self, client: int, job: ModelJob, call: str, said: tuple[str | None, str | None]) -> None:
        board = self.boards[client]
        before, (by, reason) = self._last_line(job), said
        getattr(self, f"_{call}")(board, job, by=by, reason=reason)
        after = self._last_line(job) if job.uuid in self.model.jobs else before
        if after != before:
            assert after is not None
            # Of a claim that is to end, or has ended, the line names the owner, and its reason the operator.
            names_owner = after.kind in (EventKind.CANCEL_ASKED, EventKind.RELEASED)
            assert (by or "") in (after.reason or "") if names_owner else after.who == by
            assert (reason or "") in (after.reason or "")

    def _last_line(self, job: ModelJob) -> HistoryEntry | None:
        """Return the last line of a job's history, but for those of its lane and its parents, for which nobody asks."""
        unasked = (EventKind.BLOCKED, EventKind.ADMITTED, EventKind.RESOLVED)
        return next((line for line in reversed(self.stranger.get(job.uuid).history) if line.kind not in unasked), None)

    def _post_again(self, board: JobBoard, job: ModelJob, **_: str | None) -> None:
        assert board.post("another name", uuid=job.uuid).name == job.name

    def _cancel(self, board: JobBoard, job: ModelJob, **said: str | None) -> None:
        if job.state not in LIVE:
            with pytest.raises(NotFound):
                board.cancel(job.uuid, **said)
        elif job.state is JobState.CLAIMED:
            assert board.cancel(job.uuid, **said) is False
            job.cancel_asked = True
        else:
            assert board.cancel(job.uuid, **said) is True
            del self.model.jobs[job.uuid]

    def _release(self, board: JobBoard, job: ModelJob, **said: str | None) -> None:
        if job.state is JobState.CLAIMED:
            board.release(job.uuid, **said)
            self.model.release(job)
        else:
            with pytest.raises(ClaimLost):
                board.release(job.uuid, **said)

    def _trash(self, board: JobBoard, job: ModelJob, **said: str | None) -> None:
        if job.state is JobState.COMPLETE:
            with pytest.raises(NotFound):
                board.trash(job.uuid, **said)
        else:
            board.trash(job.uuid, **said)
            job.end_claim(JobState.TRASHED)

    def _restore(self, board: JobBoard, job: ModelJob, **said: str | None) -> None:
        if job.state is not JobState.TRASHED:
            with pytest.raises(NotFound):
                board.restore(job.uuid, **said)
        elif job.key is not None and self.model.with_key(job.name, job.key):
            with pytest.raises(AlreadyPosted):
                board.restore(job.uuid, **said)
        else:
            board.restore(job.uuid, **said)
            self.model.restore(job)

    def _reprioritize(self, board: JobBoard, job: ModelJob, **said: str | None) -> None:
        priority = JobPriority(1 + job.priority % 5)
        if job.state in LIVE - {JobState.CLAIMED}:
            assert board.reprioritize(job.uuid, priority, **said)
            job.priority = priority
        else:
            with pytest.raises(UnclaimableJob if job.state is JobState.CLAIMED else NotFound):
                board.reprioritize(job.uuid, priority, **said)

    def _run_now(self, board: JobBoard, job: ModelJob, **said: str | None) -> None:
        if job.state not in LIVE:
            with pytest.raises(NotFound):
                board.run_now(job.uuid, **said)
        elif board.run_now(job.uuid, **said):
            assert job.state is JobState.DELAYED
            self.model.run_now(job)
        else:
            assert job.state is not JobState.DELAYED

    def _purge(self, board: JobBoard, job: ModelJob, **said: str | None) -> None:
        if job.state is JobState.TRASHED:
            board.purge(job.uuid, **said)
            self.model.purge(job)
        else:
            with pytest.raises(NotFound):
                board.purge(job.uuid, **said)

    @precondition(lambda self: self.model.paused or self.model.claimable(None, 1))
    @rule(client=clients, name=st.sampled_from([*NAMES, *NAMES, None]), said=saids)
    def pause_or_resume(self, client: int, name: str | None, said: tuple[str | None, str | None]) -> None:
        """Seldom more than one at a time: while all is paused, little else happens."""
        paused = min(self.model.paused, key=str, default=None)
        if self.model.paused and name != paused:
            self.boards[client].resume(paused)
            del self.model.paused[paused]
        else:
            by, reason = said
            self.boards[client].pause(name, by=by, reason=reason)
            # Of what is paused already the first pause stays.
            self.model.paused.setdefault(name, said)

    # -- what must hold after each step ----------------------------------------------------------------------------

    @invariant()
    def the_board_shows_what_the_model_does(self) -> None:
        self.model.follow_up()
        board = self.boards[self.model.posted % 2]
        shown = [_of_job(job) for job in board.iterjobs(states=set(JobState))]
        self.model.take_order([uuid for uuid, *_ in shown])
        assert shown == [_of_model(job) for job in self.model.in_order(set(JobState))]
        assert board.paused() == self.model.paused.keys()
        assert {pause.name: (pause.by, pause.reason) for pause in board.pauses()} == self.model.paused

    @rule(client=clients, wanted=filters, name=names, key=keys)
    def look(self, client: int, wanted: set[str] | None, name: str, key: str) -> None:
        board, live = self.boards[client], self.model.in_order()
        assert board.job_count == len(live)
        stats = board.stats()
        for state in (JobState.DELAYED, JobState.BLOCKED, JobState.UNCLAIMED, JobState.CLAIMED, JobState.TRASHED):
            assert getattr(stats, state.lower()) == len(self.model.in_order({state}))
        chosen = [job.uuid for job in live if wanted is None or job.name in wanted]
        assert [job.uuid for job in board.iterjobs(names=wanted)] == chosen
        assert board.audit() == []
        with_key = self.model.with_key(name, key)
        if with_key is None:
            with pytest.raises(NotFound):
                board.find(name, key)
        else:
            assert board.find(name, key).uuid == with_key.uuid


def _of_job(job: Job) -> tuple[Any, ...]:
    record = job.record
    return (
        job.uuid, job.name, job.key, job.priority, job.details, job.max_attempts, record.state, record.attempts,
        record.owner if record.state is JobState.CLAIMED else None, record.token, record.checkpoint, record.result,
        record.cancel_asked if record.state is JobState.CLAIMED else False,
    )  # fmt: skip


def _of_model(job: ModelJob) -> tuple[Any, ...]:
    return (
        job.uuid, job.name, job.key, job.priority, {"n": job.content}, job.max_attempts, job.state, job.attempts,
        job.owner if job.state is JobState.CLAIMED else None, job.token, job.checkpoint, job.result, job.cancel_asked,
    )  # fmt: skip
