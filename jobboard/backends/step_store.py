"""The seam's role for the steps of durable handlers, and the signals that are sent to jobs."""

from __future__ import annotations

import abc

from jobboard.backends.edge_rows import SignalOutcome, SignalRow, StepRow
from jobboard.backends.rows import ClaimAnswer, Fence
from jobboard.errors import NotSupported


class StepStore(abc.ABC):
    """The steps of jobs, and their signals; both live until the job is forgotten."""

    @abc.abstractmethod
    def save(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        """Write a step down under a claim: DONE, CANCEL_ASKED or LOST; durable. Costs the same for each step of a job.

        Its number is that of the last one plus one, or a repeat's, which writes the same again under the same claim.
        The store's clock gives ``at``. One request.
        """

    @abc.abstractmethod
    def load(self, uuid: str, first: int, size: int) -> list[StepRow]:
        """Return up to ``size`` steps of a job in their order, beginning with this number; [] at the end."""

    @abc.abstractmethod
    def signal(self, uuid: str, name: str, value: bytes, by: str | None = None) -> SignalOutcome:
        """Keep a signal for a live job; one that waits for it is on the board in the same step (``waiting.signal``).

        A repeat, and any later signal of this name, finds the first one (REPEATED).
        """

    @abc.abstractmethod
    def signals(self, uuid: str) -> list[SignalRow]:
        """Return the signals that were sent to a job, in any order."""


class NoSteps(StepStore):
    """What a store has that keeps no steps."""

    def save(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        raise NotSupported("this store keeps no steps")

    def load(self, uuid: str, first: int, size: int) -> list[StepRow]:
        return []

    def signal(self, uuid: str, name: str, value: bytes, by: str | None = None) -> SignalOutcome:
        raise NotSupported("this store keeps no signals")

    def signals(self, uuid: str) -> list[SignalRow]:
        return []
