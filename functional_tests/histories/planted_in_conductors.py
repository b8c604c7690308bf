"""Conductors that break a promise, and stores that make them: to show that the checker finds that, too."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from jobboard import BoardUnavailable
from jobboard.backends.rows import ClaimAnswer, ClaimRequest, Consumption, Extension, JobRow, Verdict
from jobboard.conductor.run import ConductorRun

from . import conducting
from .planted import Planted

#: Seconds by which answers are late to the conductor whose claims last shortest.
_LATE = conducting.EXPIRIES["c0"] + 1.0


class BeginsLate(Planted):
    """Answers a conductor after the end of its claims, which it takes for new ones."""

    @classmethod
    def plant(cls, patch: pytest.MonkeyPatch) -> None:
        claimed = ConductorRun._claimed
        patch.setattr(ConductorRun, "_claimed", lambda run, jobs, _: claimed(run, jobs, time.monotonic()))

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        rows = self.right.claim_next(claim, names, limit)
        if rows and claim.who.startswith("c0."):
            threading.Event().wait(_LATE)
        return rows


class TellsNoHandler(Planted):
    """Renews nothing, and the conductor's handlers don't see that."""

    @classmethod
    def plant(cls, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(ConductorRun, "_interrupt", lambda *_, **__: None)
        patch.setattr(conducting, "runs_long", lambda _: True)

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        if any(each.fence.who.startswith("c0.") for each in renewals):
            raise BoardUnavailable("planted")
        return self.right.extend(renewals)


class TakesLateEnds(TellsNoHandler):
    """Takes the ends of claims whose time is over, from a conductor that doesn't look at the time."""

    @classmethod
    def plant(cls, patch: pytest.MonkeyPatch) -> None:
        super().plant(patch)
        patch.setattr(ConductorRun, "_due", lambda *_: None)

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        return [Verdict.DONE for _ in self.right.consume(ends)]


class KeepsAJob(Planted):
    """Takes no end of some jobs."""

    @classmethod
    def plant(cls, patch: pytest.MonkeyPatch) -> None:
        """The conductor is sound."""

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        if any(each.fence.who.startswith("c") and each.fence.uuid[0] in "0123456" for each in ends):
            raise BoardUnavailable("planted")
        return self.right.consume(ends)


#: What is planted, and the promises that the checker must see broken.
PLANTED_IN_CONDUCTORS: dict[Any, set[str]] = {
    BeginsLate: {"a handler begins under its claim"},
    TellsNoHandler: {"a handler is told that its claim is over"},
    TakesLateEnds: {"nothing under a claim that is over"},
    KeepsAJob: {"a job is ended after its handler", "a stop in good order ends all"},
}
