"""A store that is nothing but the rules of :mod:`jobboard.backends.lifecycle` over plain rows: others are held to it.

It has no indexes, no locks and no speed. It is no second opinion on the rules (that is :mod:`jobboard.testing.model`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from jobboard.backends import admission, lifecycle
from jobboard.backends.lane_rows import LanePage, LimitRow
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
    Pause,
    Posted,
    PostOutcome,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.backends.transition import Answer, Note, Transition
from jobboard.events import HISTORY_LENGTH, EventKind, HistoryEntry
from jobboard.limit import is_lane_of
from jobboard.states import LIVE, JobState
from jobboard.validation import moment


class PlainPauses:
    """The paused names, with what is known of their pauses; and all that was told of each."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.names: dict[str | None, Pause] = {}
        self.told: dict[str | None, list[Note]] = {}

    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        if name not in self.names:
            now = self._now()
            self.names[name] = Pause(name, by, reason, moment(now))
            self.told.setdefault(name, []).append(Note(EventKind.PAUSED, by, now, None, reason))

    def resume(self, name: str | None) -> None:
        if self.names.pop(name, None) is not None:
            self.told.setdefault(name, []).append(Note(EventKind.RESUMED, None, self._now()))

    def pauses(self) -> list[Pause]:
        return list(self.names.values())


class PlainLimits:
    """The limits of a board by what they are of, and looks at its lanes."""

    def __init__(self, store: PlainStore) -> None:
        self._store = store
        self._rows: dict[tuple[str, str], LimitRow] = {}

    def all(self) -> list[LimitRow]:
        return list(self._rows.values())

    def put(self, row: LimitRow, after: str | None) -> Verdict:
        stored = self._rows.get(row.key)
        verdict = row.verdict(None if stored is None else stored.version, after)
        if verdict is Verdict.DONE:
            self._rows[row.key] = row
            note = Note(EventKind.LIMITED, row.limit.by, self._store.now(), None, str(row.limit))
            self._store.maintenance.told.setdefault(row.limit.name, []).append(note)
        return verdict

    def lanes(self, pattern: str, cursor: object | None, size: int) -> LanePage:
        return LanePage([lane for lane in self._store.lanes() if is_lane_of(lane, pattern)], None)

    def look(self, lanes: Sequence[str]) -> list[str]:
        self._store.look_at(lanes)
        return []

    def finish(self, row: LimitRow) -> None:
        if row.limit.is_empty:
            self._rows.pop(row.key)

    @property
    def names(self) -> dict[str, int]:
        """The names that have a limit, and how many of each may be claimed."""
        limits = [row.limit for row in self._rows.values() if row.limit.name is not None]
        return {str(limit.name): limit.running for limit in limits if limit.running is not None}


class PlainStore:
    """The primitives of :class:`~jobboard.backends.roles.JobStore`, by the rules alone.

    :param now: returns the present time.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.jobs = self
        self.maintenance = PlainPauses(now)
        self.limits = PlainLimits(self)
        #: All that was told of a job, by its uuid.
        self.told: dict[str, list[Note]] = {}
        self._rows: dict[str, JobRow] = {}
        self._aliases: dict[str, JobRow] = {}
        self._hidden_from: dict[str, float] = {}
        self._sequence = self._token = 0
        #: Of a step that is under way: the lanes to look at, and the jobs that have joined theirs in it.
        self._touched: dict[str, None] = {}
        self._joined: list[JobRow] = []
        #: What the rate of each lane has come to, and when each is to be looked at again.
        self._next_at: dict[str, tuple[float, int]] = {}
        self._look_at: dict[str, float] = {}

    def _begin(self) -> float:
        now = self.now()
        for row in self._rows.values():
            while lifecycle.is_due(row, now):
                was = row.state
                change = lifecycle.expire_or_promote(row, now, self._limit_of(row))
                self._carry_out(row, change, now, was)
        self._touched.update({lane: None for lane, at in self._look_at.items() if at <= now})
        self._look_at_lanes(now)
        return now

    def _limit_of(self, row: JobRow | None) -> LaneLimit:
        return UNLIMITED if row is None or row.lane is None else Rules(self.limits.all()).of_lane(row.lane)

    def _change(self, uuid: str, rule: Callable[..., Transition[Answer]], *request: object, **more: object) -> Answer:
        now = self._begin()
        row = self._rows.get(uuid)
        was = None if row is None else row.state
        change = rule(row, *request, now=now, **more)
        if row is None:
            return change.answer
        self._carry_out(row, change, now, was)
        self._look_at_lanes(now)
        return change.answer

    def _carry_out(self, row: JobRow, change: Transition[Answer], now: float, was: JobState | None = None) -> Answer:
        """Carry out a change of a row.

        :param was: its state before; a row that is BLOCKED now and was not has joined its lane in this step.
        """
        self._tell(row, change)
        if change.told and row.state is JobState.COMPLETE:
            self._hidden_from[row.uuid] = now + change.retention
        self._touched.update({following.lane: None for following in change.follow})
        if row.state is JobState.BLOCKED and was is not JobState.BLOCKED:
            self._joined.append(row)
        return change.answer

    def _tell(self, row: JobRow, change: Transition[Answer]) -> None:
        lines = (HistoryEntry(kind, who, moment(at), token, why) for kind, who, at, token, why in change.history)
        row.history = (*row.history, *lines)[-HISTORY_LENGTH:]
        self.told.setdefault(row.uuid, []).extend(change.told)

    # -- lanes -----------------------------------------------------------------------------------------------------

    def lanes(self) -> list[str]:
        return sorted({row.lane for row in self._rows.values() if row.lane is not None})

    def look_at(self, some: Iterable[str]) -> None:
        """Bring lanes to what their limits allow."""
        now = self._begin()
        self._touched.update(dict.fromkeys(some))
        self._look_at_lanes(now)

    def _look_at_lanes(self, now: float) -> None:
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
        now = self._begin()
        plan = PostingPlan(
            lambda uuid: self._rows.get(uuid) or self._aliases.get(uuid),
            lambda place: self._holder(*place),
            lambda new: lifecycle.draft(new, now),
        )
        steps = [plan.step(new) for new in rows]
        if not any(outcome.refuses_batch for outcome, _ in steps):
            for new, (outcome, row) in zip(rows, steps, strict=True):
                if outcome is PostOutcome.POSTED:
                    self._sequence += 1
                    row.sequence, self._rows[row.uuid] = self._sequence, row
                    self._carry_out(row, lifecycle.post(row, new, now), now)
                elif outcome is PostOutcome.REPLACED:
                    self._aliases[new.uuid], was = row, row.state
                    self._carry_out(row, lifecycle.replace(row, new, now), now, was)
            self._look_at_lanes(now)
        return [Posted(outcome, replace(row)) for outcome, row in steps]

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        return [self._change(uuid, partial(lifecycle.cancel, by=by, reason=reason)) for uuid in uuids]

    # -- consumers -------------------------------------------------------------------------------------------------

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        self._claim(claim, [uuid])
        return self.read([uuid])[0]

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        now = self._begin()
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
        self._begin()
        return [replace(row) for row in self._rows.values() if row.claim_id == claim_id]

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        return [self._change(renewal.fence.uuid, lifecycle.extend, renewal) for renewal in renewals]

    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        return self._change(fence.uuid, lifecycle.checkpoint, fence, state)

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        return [self._change(end.fence.uuid, lifecycle.consume, end) for end in ends]

    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        return [
            self._change(end.fence.uuid, lifecycle.abandon, end, limit=self._limit_of(self._rows.get(end.fence.uuid)))
            for end in ends
        ]

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        return [self._change(end.uuid, lifecycle.trash, end) for end in ends]

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
        return outcomes

    # -- readers ---------------------------------------------------------------------------------------------------

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        now = self._begin()
        rows = [self._rows.get(uuid) for uuid in uuids]
        return [None if row is None or self._is_hidden(row, now) else replace(row) for row in rows]

    def _is_hidden(self, row: JobRow, now: float) -> bool:
        return row.state is JobState.COMPLETE and self._hidden_from[row.uuid] <= now

    def history(self, uuid: str) -> list[HistoryEntry]:
        (row,) = self.read([uuid])
        return [] if row is None else list(row.history)

    def find(self, name: str, key: str) -> JobRow | None:
        self._begin()
        holder = self._holder(name, key)
        return None if holder is None else replace(holder)

    def _holder(self, name: str, key: str | None) -> JobRow | None:
        live = (row for row in self._rows.values() if row.state in LIVE)
        return next((row for row in live if row.key is not None and (row.name, row.key) == (name, key)), None)


def _order(row: JobRow) -> tuple[int, float, int]:
    return -row.priority, row.place, row.sequence
