"""A store that is nothing but the rules of :mod:`jobboard.backends.lifecycle` over plain rows: others are held to it.

It has no indexes, no locks and no speed. It is no second opinion on the rules (that is :mod:`jobboard.testing.model`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from jobboard.backends import admission, lifecycle
from jobboard.backends.lanes import LaneView, is_holder, plan
from jobboard.backends.limits import UNLIMITED, LaneLimit, Rules
from jobboard.backends.posting_plan import PostingPlan
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimAnswer,
    ClaimRequest,
    Consumption,
    Extension,
    Fence,
    JobRow,
    NewJob,
    Posted,
    PostOutcome,
    Refused,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.backends.transition import Answer, Note, Transition
from jobboard.events import HISTORY_LENGTH, HistoryEntry
from jobboard.states import LIVE, JobState
from jobboard.testing.plain_edges import PlainEdges, PlainSteps
from jobboard.testing.plain_limits import PlainLimits, PlainPauses
from jobboard.validation import moment


class PlainStore:
    """The primitives of :class:`~jobboard.backends.roles.JobStore`, by the rules alone.

    :param now: returns the present time.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.jobs = self
        self.maintenance = PlainPauses(now)
        self.limits = PlainLimits(self)
        self.edges, self.steps = PlainEdges(self), PlainSteps(self)
        #: All that was told of a job, by its uuid.
        self.told: dict[str, list[Note]] = {}
        self._rows: dict[str, JobRow] = {}
        self._aliases: dict[str, JobRow] = {}
        self._hidden_from: dict[str, float] = {}
        #: (name, key) -> the row that keeps the key until a moment, also after its end.
        self._windows: dict[tuple[str, str], tuple[JobRow, float]] = {}
        self._sequence = self._token = 0
        #: Of a step that is under way: the lanes to look at, and the jobs that have joined theirs in it.
        self._touched: dict[str, None] = {}
        self._joined: list[JobRow] = []
        #: What the rate of each lane has come to, and when each is to be looked at again.
        self._next_at: dict[str, tuple[float, int]] = {}
        self._look_at: dict[str, float] = {}

    def row_of(self, uuid: str) -> JobRow | None:
        return self._rows.get(uuid)

    def begin(self) -> float:
        """Bring all up to the present."""
        now = self.now()
        for row in self._rows.values():
            while lifecycle.is_due(row, now):
                was = row.state
                change = lifecycle.expire_or_promote(row, now, self._limit_of(row))
                self.carry_out(row, change, now, was)
        self.edges.expire(now)
        self._touched.update({lane: None for lane, at in self._look_at.items() if at <= now})
        self.end(now)
        return now

    def _limit_of(self, row: JobRow | None) -> LaneLimit:
        return UNLIMITED if row is None or row.lane is None else Rules(self.limits.all()).of_lane(row.lane)

    def _change(self, uuid: str, rule: Callable[..., Transition[Answer]], *request: object, **more: object) -> Answer:
        now = self.begin()
        row = self._rows.get(uuid)
        was = None if row is None else row.state
        change = rule(row, *request, now=now, **more)
        if row is None:
            return change.answer
        self.carry_out(row, change, now, was)
        self.end(now)
        return change.answer

    def carry_out(self, row: JobRow, change: Transition[Answer], now: float, was: JobState | None = None) -> Answer:
        """Carry out a change of a row.

        :param was: its state before; a row that is BLOCKED now and was not has joined its lane in this step.
        """
        self._tell(row, change)
        if change.told and row.state is JobState.COMPLETE:
            self._hidden_from[row.uuid] = now + max(change.retention, self._keeps_key(row, now))
        self._touched.update({following.lane: None for following in change.follow})
        if row.state is JobState.BLOCKED and was is not JobState.BLOCKED:
            self._joined.append(row)
        if change.resolve is not None:
            self.edges.tell(change.resolve, now)
        if change.posts:
            self._post(self._plan(change.posts, now), now)
        return change.answer

    def _keeps_key(self, row: JobRow, now: float) -> float:
        """Return for how many seconds a job that has ended keeps its key; a cancelled one gives it back."""
        place = row.name, row.key or ""
        window = self._windows.get(place)
        if window is None or window[0] is not row:
            return 0.0
        if row.owner is None:
            del self._windows[place]
        return window[1] - now if row.owner is not None else 0.0

    def _tell(self, row: JobRow, change: Transition[Answer]) -> None:
        lines = (HistoryEntry(kind, who, moment(at), token, why) for kind, who, at, token, why in change.history)
        row.history = (*row.history, *lines)[-HISTORY_LENGTH:]
        self.told.setdefault(row.uuid, []).extend(change.told)

    # -- lanes -----------------------------------------------------------------------------------------------------

    def lanes(self) -> list[str]:
        return sorted({row.lane for row in self._rows.values() if row.lane is not None})

    def look_at(self, some: Iterable[str]) -> None:
        """Bring lanes to what their limits allow."""
        now = self.begin()
        self._touched.update(dict.fromkeys(some))
        self.end(now)

    def end(self, now: float) -> None:
        """End a step: look at each of its lanes once."""
        for lane in self._touched:
            self._look_at_lane(lane, now)
        self._touched, self._joined = {}, []

    def _look_at_lane(self, lane: str, now: float) -> None:
        limit = Rules(self.limits.all()).of_lane(lane)
        steps = plan(self._view(lane, limit), limit, now)
        self._next_at[lane] = steps.next_at, steps.offered
        self._look_at[lane] = math.inf if steps.look_at is None else steps.look_at
        for row in steps.withdraw:
            self._tell(row, admission.withdraw(row, now))
        for row in steps.admit:
            if any(row is each for each in self._joined):
                admission.admit_at_once(row)
            else:
                self._tell(row, admission.admit(row, now))
        for row in self._joined:
            if row.state is JobState.BLOCKED and row.joined_lane == lane:
                self._tell(row, admission.wait_for_lane(row, now))

    def _view(self, lane: str, limit: LaneLimit) -> LaneView[JobRow]:
        tied = sorted((row for row in self._rows.values() if row.joined_lane == lane), key=_order)
        claimable = [row for row in tied if row.state is JobState.UNCLAIMED]
        blocked = [row for row in tied if row.state is JobState.BLOCKED]
        held = sum(is_holder(row, limit.is_strict) for row in tied) - len(claimable)
        return LaneView(held, len(claimable), claimable[::-1], blocked, *self._next_at.get(lane, (0.0, 0)))

    # -- producers -------------------------------------------------------------------------------------------------

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        now = self.begin()
        planned = self._plan(rows, now)
        if not planned.is_refused:
            self._post(planned, now)
            self.end(now)
        return planned.answers()

    def _plan(self, rows: Sequence[NewJob], now: float, ending: JobRow | None = None) -> _Planned:
        """Plan a batch.

        :param ending: a job that ends in the same step, so that its key is free.
        """
        plan = PostingPlan(
            lambda uuid: self._rows.get(uuid) or self._aliases.get(uuid),
            lambda place: self._keeper(*place, now, ending),
            lambda new: lifecycle.draft(new, now),
            self.edges.missing_parent,
        )
        return _Planned([(new, *plan.step(new)) for new in rows], plan.missing)

    def _post(self, planned: _Planned, now: float) -> None:
        for new, outcome, row in planned.steps:
            if (
                outcome in (PostOutcome.POSTED, PostOutcome.REPLACED)
                and new.key_for is not None
                and row.key is not None
            ):
                # First: a job that is cancelled as it is posted keeps no key.
                self._windows[row.name, row.key] = row, now + new.key_for
            if outcome is PostOutcome.POSTED:
                self._sequence += 1
                row.sequence, self._rows[row.uuid] = self._sequence, row
                self.carry_out(row, lifecycle.post(row, new, now), now)
                if new.parents or new.graph is not None:
                    self.edges.connect(row, new, now)
            elif outcome is PostOutcome.REPLACED:
                self._aliases[new.uuid], was = row, row.state
                self.carry_out(row, lifecycle.replace(row, new, now), now, was)

    def _keeper(self, name: str, key: str, now: float, ending: JobRow | None) -> JobRow | None:
        """Return the job that has a key: a live one, or one that keeps it for a while after its end."""
        row, until = self._windows.get((name, key), (None, 0.0))
        live = self._holder(name, key)
        if live is None or (live is ending and row is None):
            return row if until > now else None
        return live

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        return [self._change(uuid, partial(lifecycle.cancel, by=by, reason=reason)) for uuid in uuids]

    # -- consumers -------------------------------------------------------------------------------------------------

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        self._claim(claim, [uuid])
        return self.read([uuid])[0]

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        now = self.begin()
        claimed = self._claim_best(claim, names, limit)
        if len(claimed) < limit:
            self._exchange(names, limit - len(claimed), now)
            claimed += self._claim_best(claim, names, limit - len(claimed))
        return [replace(row) for row in claimed]

    def _claim_best(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        claimed: list[JobRow] = []
        for row in sorted(self._rows.values(), key=_order):
            if len(claimed) < limit and row.state is JobState.UNCLAIMED and self._is_granted(row, names):
                self._claim(claim, [row.uuid])
                claimed.append(row)
        return claimed

    def _is_granted(self, row: JobRow, names: frozenset[str] | None) -> bool:
        """Whether somebody who asks for these names may get a job of this name."""
        return self._closed().isdisjoint({None, row.name}) and (names is None or row.name in names)

    def _claim(self, claim: ClaimRequest, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            self._token += self._change(uuid, lifecycle.claim, claim, token=self._token + 1, paused=self._closed())

    def _closed(self) -> frozenset[str | None]:
        """Return the names of which nothing can be claimed: those that are paused, and those that are full."""
        claimed = Counter(row.name for row in self._rows.values() if row.state is JobState.CLAIMED)
        full = (name for name, most in self.limits.names.items() if claimed[name] >= most)
        return frozenset((*self.maintenance.names, *full))

    def _exchange(self, names: frozenset[str] | None, most: int, now: float) -> None:
        """In each lane let jobs that this claim can have take the slots of those that it can't."""
        for lane in self.lanes():
            limit = Rules(self.limits.all()).of_lane(lane)
            view = self._view(lane, limit)
            stuck = [row for row in view.last if not self._is_granted(row, names)]
            waiting = [row for row in view.blocked if self._is_granted(row, names)]
            pairs = [] if limit.is_strict else list(zip(stuck, waiting, strict=False))[:most]
            for held, row in pairs:
                self._tell(held, admission.withdraw(held, now))
                self._tell(row, admission.admit(row, now))
            most -= len(pairs)

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        self.begin()
        return [replace(row) for row in self._rows.values() if row.claim_id == claim_id]

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        return [self._change(renewal.fence.uuid, lifecycle.extend, renewal) for renewal in renewals]

    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        return self._change(fence.uuid, lifecycle.checkpoint, fence, state)

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        return [self._refused(end) or self._change(end.fence.uuid, lifecycle.consume, end) for end in ends]

    def _refused(self, end: Consumption | Trashing) -> Refused | None:
        """Say what was to be posted with an end, if that is refused."""
        now = self.begin()
        row = None if end.fence is None else self._rows.get(end.fence.uuid)
        if end.fence is None or not lifecycle.holds(row, end.fence):
            return None
        planned = self._plan(end.posts, now, row)
        if planned.is_refused:
            return Refused(tuple(planned.answers()))
        is_lost = isinstance(end, Consumption) and end.seal is not None and self.edges.seal(end.seal) is Verdict.LOST
        return Refused(()) if is_lost else None

    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        return [self._abandon(end, end.fence.uuid) for end in ends]

    def _abandon(self, end: Abandonment, uuid: str) -> ClaimAnswer:
        limit, has_signal = self._limit_of(self._rows.get(uuid)), self.steps.has(uuid, end.signal)
        return self._change(uuid, lifecycle.abandon, end, limit=limit, has_signal=has_signal)

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        return [self._refused(end) or self._change(end.uuid, lifecycle.trash, end) for end in ends]

    # -- operators -------------------------------------------------------------------------------------------------

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        return self._change(uuid, lifecycle.release, token, reason, limit=self._limit_of(self._rows.get(uuid)))

    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        rule = partial(lifecycle.run_now, by=by, reason=reason)
        return [self._change(uuid, rule, limit=self._limit_of(self._rows.get(uuid))) for uuid in uuids]

    def reprioritize(self, uuids: Sequence[str], priority: int, by: str | None, reason: str | None) -> list[Verdict]:
        return [self._change(uuid, lifecycle.reprioritize, priority, by, reason) for uuid in uuids]

    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        rule = partial(lifecycle.restore, is_key_taken=self._is_key_taken, by=by, reason=reason)
        return [self._change(uuid, rule) for uuid in uuids]

    def _is_key_taken(self, row: JobRow) -> bool:
        return self._holder(row.name, row.key) is not None

    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        outcomes = [self._change(uuid, partial(lifecycle.purge, by=by, reason=reason)) for uuid in uuids]
        for uuid, outcome in zip(uuids, outcomes, strict=True):
            if outcome is TrashOutcome.DONE:
                row = self._rows.pop(uuid)
                self._aliases = {alias: its for alias, its in self._aliases.items() if its is not row}
                self._windows = {place: its for place, its in self._windows.items() if its[0] is not row}
                self.edges.forget(uuid)
                self.steps.forget(uuid)
        return outcomes

    # -- readers ---------------------------------------------------------------------------------------------------

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        now = self.begin()
        rows = [self._rows.get(uuid) for uuid in uuids]
        return [None if row is None or self._is_hidden(row, now) else replace(row) for row in rows]

    def _is_hidden(self, row: JobRow, now: float) -> bool:
        return row.state is JobState.COMPLETE and self._hidden_from[row.uuid] <= now

    def history(self, uuid: str) -> list[HistoryEntry]:
        (row,) = self.read([uuid])
        return [] if row is None else list(row.history)

    def find(self, name: str, key: str) -> JobRow | None:
        self.begin()
        holder = self._holder(name, key)
        return None if holder is None else replace(holder)

    def _holder(self, name: str, key: str | None) -> JobRow | None:
        live = (row for row in self._rows.values() if row.state in LIVE)
        return next((row for row in live if row.key is not None and (row.name, row.key) == (name, key)), None)


@dataclass
class _Planned:
    """A batch whose postings have their outcomes, and those parents that are missing, by their postings' uuids."""

    steps: list[tuple[NewJob, PostOutcome, JobRow]]
    missing: dict[str, str]

    @property
    def is_refused(self) -> bool:
        return any(outcome.refuses_batch for _, outcome, _ in self.steps)

    def answers(self) -> list[Posted]:
        return [Posted(outcome, replace(row), self.missing.get(new.uuid)) for new, outcome, row in self.steps]


def _order(row: JobRow) -> tuple[int, float, int]:
    return -row.priority, row.place, row.sequence
