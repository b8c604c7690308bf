"""Backends that break one promise now and then, to show that the checker finds it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from jobboard.backends.base import Backend
from jobboard.backends.book_rows import BookSave
from jobboard.backends.findings import AuditFinding
from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.roles import join_jobs
from jobboard.backends.rows import (
    Abandonment,
    ClaimAnswer,
    ClaimRequest,
    Consumption,
    Extension,
    JobRow,
    NewJob,
    Posted,
    TrashOutcome,
    Verdict,
)
from jobboard.states import JobState
from jobboard.testing.faults import LossyBackend


class Planted(LossyBackend):
    """Hands everything on, but now and then, by a seed of its own, does it wrongly."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._chance = random.Random(1)
        self.right = self.jobs
        self.jobs = join_jobs(self, self.right)

    def strikes(self) -> bool:
        return self._chance.random() < 0.1


class LosesJobs(Planted):
    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        posted = self.right.post(rows)
        if self.strikes():
            self.inner.jobs.cancel([posted[0].row.uuid])
        return posted


class ConsumesTwice(Planted):
    """Says that a job is complete, and puts it back."""

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        if self.strikes():
            return self.inner.jobs.abandon([Abandonment(end.fence) for end in ends])
        return self.right.consume(ends)


class TakesStaleEnds(Planted):
    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        verdicts = self.right.extend(renewals)
        return [Verdict.DONE for _ in verdicts] if self.strikes() else verdicts


class ClaimsTooEarly(Planted):
    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        return self.right.claim_next(replace(claim, expiry=claim.expiry / 10), names, limit)


class TellsOfFalseLosses(Planted):
    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        verdicts = self.right.extend(renewals)
        return [Verdict.LOST for _ in verdicts] if self.strikes() else verdicts


class ClaimsInAWrongOrder(Planted):
    """Claims the last one instead of the first ones; the board would put a batch in order again."""

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        waiting = self.inner.jobs.page({JobState.UNCLAIMED}, names, None, 500).rows
        claimed = self.inner.jobs.claim(waiting[-1].uuid, claim) if waiting else None
        return [claimed] if claimed is not None and claimed.claim_id == claim.claim_id else []


class ForgetsDelays(Planted):
    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        return self.right.post([replace(row, delay=None) for row in rows] if self.strikes() else rows)


class GivesOldTokens(Planted):
    """Gives one token to all claims: only a job that is claimed twice shows it, and few are."""

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        claimed = self.right.claim_next(claim, names, limit)
        return [replace(row, token=1) for row in claimed]


class Leaks(Planted):
    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        self.inner.books.save(BookSave(uuids[0], "1", None, b""))
        return self.right.purge(uuids, by, reason)


class AllowsMoreThanTheLimit(Planted):
    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        put = self.limits.put
        self.limits.put = lambda row, after: put(_moved(row, 2), after)  # type: ignore[method-assign]


class LeavesSlotsFree(Planted):
    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        put = self.limits.put
        self.limits.put = lambda row, after: put(_moved(row, -1), after)  # type: ignore[method-assign]


def _moved(row: LimitRow, by: int) -> LimitRow:
    """Return a limit under which more or fewer may run than it says."""
    running = row.limit.running
    return row if running is None else replace(row, limit=replace(row.limit, running=max(0, running + by)))


class SeesGhosts(Planted):
    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.maintenance.audit = lambda repair: [AuditFinding(None, "a ghost")]  # type: ignore[method-assign]


#: What is planted, and the promise that the checker must see broken.
PLANTED: dict[type[Planted], str] = {
    LosesJobs: "nothing is lost",
    ConsumesTwice: "consumed once",
    TakesStaleEnds: "nothing under a stale token",
    ClaimsTooEarly: "no claim is taken before its expiry",
    TellsOfFalseLosses: "a claim holds until its expiry",
    ClaimsInAWrongOrder: "best first",
    ForgetsDelays: "no job is claimed before it is due",
    GivesOldTokens: "tokens rise",
    Leaks: "nothing leaks",
    AllowsMoreThanTheLimit: "never over a limit",
    LeavesSlotsFree: "never under a limit",
    SeesGhosts: "a clean audit",
}
