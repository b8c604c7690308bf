"""A store that is nothing but the rules of :mod:`jobboard.backends.lifecycle` over plain rows: others are held to it.

It has no indexes, no locks and no speed. It is no second opinion on the rules (that is :mod:`jobboard.testing.model`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from jobboard.backends import admission, lifecycle
from jobboard.backends.lanes import HOLDS_SLOT
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


class PlainStore:
    """The primitives of :class:`~jobboard.backends.roles.JobStore`, by the rules alone.

    :param now: returns the present time.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.jobs = self
        self.maintenance = PlainPauses(now)
        #: All that was told of a job, by its uuid.
        self.told: dict[str, list[Note]] = {}
        self._rows: dict[str, JobRow] = {}
        self._aliases: dict[str, JobRow] = {}
        self._hidden_from: dict[str, float] = {}
        self._sequence = self._token = 0

    def _begin(self) -> float:
        now = self.now()
        for row in self._rows.values():
            while lifecycle.is_due(row, now):
                self._carry_out(row, lifecycle.expire_or_promote(row, now), now)
        return now

    def _change(self, uuid: str, rule: Callable[..., Transition[Answer]], *request: object, **more: object) -> Answer:
        now = self._begin()
        row = self._rows.get(uuid)
        change = rule(row, *request, now=now, **more)
        return change.answer if row is None else self._carry_out(row, change, now)

    def _carry_out(self, row: JobRow, change: Transition[Answer], now: float) -> Answer:
        lines = (HistoryEntry(kind, who, moment(at), token, why) for kind, who, at, token, why in change.history)
        row.history = (*row.history, *lines)[-HISTORY_LENGTH:]
        self.told.setdefault(row.uuid, []).extend(change.told)
        if change.told and row.state is JobState.COMPLETE:
            self._hidden_from[row.uuid] = now + change.retention
        for following in change.follow:
            self._admit(following.lane, now)
        return change.answer

    def _admit(self, lane: str, now: float) -> None:
        tied = [row for row in self._rows.values() if row.ties is not None and row.ties.lane == lane]
        blocked = [row for row in tied if row.state is JobState.BLOCKED]
        if blocked and not any(row.state in HOLDS_SLOT for row in tied):
            first = min(blocked, key=lambda row: (-row.priority, row.place, row.sequence))
            self._carry_out(first, admission.admit(first, now), now)

    # -- producers -------------------------------------------------------------------------------------------------

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        now = self._begin()
        plan = PostingPlan(
            lambda uuid: self._rows.get(uuid) or self._aliases.get(uuid),
            lambda place: self._holder(*place),
            lambda new: lifecycle.draft(new, now),
        )
        steps = [plan.step(new) for new in rows]
        if all(outcome is not PostOutcome.TAKEN for outcome, _ in steps):
            for new, (outcome, row) in zip(rows, steps, strict=True):
                if outcome is PostOutcome.POSTED:
                    self._sequence += 1
                    row.sequence, self._rows[row.uuid] = self._sequence, row
                    self._carry_out(row, lifecycle.post(row, new, now), now)
                elif outcome is PostOutcome.REPLACED:
                    self._aliases[new.uuid] = row
                    self._carry_out(row, lifecycle.replace(row, new, now), now)
        return [Posted(outcome, replace(row)) for outcome, row in steps]

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        return [self._change(uuid, partial(lifecycle.cancel, by=by, reason=reason)) for uuid in uuids]

    # -- consumers -------------------------------------------------------------------------------------------------

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        self._claim(claim, [uuid])
        return self.read([uuid])[0]

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        self._begin()
        rows = sorted(self._rows.values(), key=lambda row: (-row.priority, row.place, row.sequence))
        ready = [row for row in rows if lifecycle.is_claimable(row, self.maintenance.names)]
        wanted = [row.uuid for row in ready if names is None or row.name in names][:limit]
        self._claim(claim, wanted)
        return [replace(self._rows[uuid]) for uuid in wanted]

    def _claim(self, claim: ClaimRequest, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            self._token += self._change(
                uuid, lifecycle.claim, claim, token=self._token + 1, paused=self.maintenance.names
            )

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
        return [self._change(end.fence.uuid, lifecycle.abandon, end) for end in ends]

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        return [self._change(end.uuid, lifecycle.trash, end) for end in ends]

    # -- operators -------------------------------------------------------------------------------------------------

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        return self._change(uuid, lifecycle.release, token, reason)

    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        return [self._change(uuid, partial(lifecycle.run_now, by=by, reason=reason)) for uuid in uuids]

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
