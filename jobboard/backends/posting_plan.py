"""Plans a batch of postings: which are new, and which meet a job that has their uuid or key. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from jobboard.backends.rows import IfExists, JobRow, NewJob, PostOutcome
from jobboard.states import LIVE, JobState

Row = TypeVar("Row", bound=JobRow)

#: The states of a job whose content a posting may replace.
REPLACEABLE = LIVE - {JobState.CLAIMED}


def no_missing_parent(new: NewJob, batch: Collection[str]) -> str | None:
    """Find nothing missing, as a store does that looks for parents itself."""
    return None


class PostingPlan(Generic[Row]):
    """What becomes of each posting of a batch, those before it counted in; changes nothing.

    If one outcome refuses the batch (``PostOutcome.refuses_batch``), nothing of it may be carried out.

    :param by_uuid: finds a job that was posted under this uuid, or replaced under it.
    :param by_key: finds the live job of this name and key.
    :param draft: makes the row of a new job.
    :param missing_parent: returns a parent, or the graph, of a posting that the board does not know, given those that
        come before in the batch; None if there is none.
    """

    def __init__(
        self,
        by_uuid: Callable[[str], Row | None],
        by_key: Callable[[tuple[str, str]], Row | None],
        draft: Callable[[NewJob], Row],
        missing_parent: Callable[[NewJob, Collection[str]], str | None] = no_missing_parent,
    ) -> None:
        self._find_uuid, self._find_key, self._draft = by_uuid, by_key, draft
        self._find_missing = missing_parent
        #: The uuids of the postings that were refused for a parent, and that parent.
        self.missing: dict[str, str] = {}
        self._by_uuid: dict[str, Row] = {}
        self._by_key: dict[tuple[str, str], Row] = {}

    def step(self, new: NewJob) -> tuple[PostOutcome, Row]:
        """Return what becomes of the next posting, and the row that it is about."""
        known = self._find_uuid(new.uuid) or self._by_uuid.get(new.uuid)
        if known is not None:
            return PostOutcome.SAME, known
        place = None if new.key is None else (new.name, new.key)
        holder = None if place is None else self._find_key(place) or self._by_key.get(place)
        if holder is not None:
            outcome = meet(new, holder)
            if outcome is PostOutcome.REPLACED:
                self._by_uuid[new.uuid] = holder
            return outcome, holder
        row = self._draft(new)
        if new.parents or new.graph is not None:
            missing = self._find_missing(new, self._by_uuid)
            if missing is not None:
                self.missing[new.uuid] = missing
                return PostOutcome.NO_PARENT, row
        self._by_uuid[new.uuid] = row
        if place is not None:
            self._by_key[place] = row
        return PostOutcome.POSTED, row


def meet(new: NewJob, holder: JobRow) -> PostOutcome:
    """Return what becomes of a posting whose key a live job has, or one that has ended within its ``key_for``."""
    if new.if_exists is IfExists.KEEP:
        return PostOutcome.KEPT
    if new.if_exists is IfExists.RAISE or holder.state not in REPLACEABLE:
        return PostOutcome.TAKEN
    lane = None if new.ties is None else new.ties.lane
    return PostOutcome.REPLACED if lane == holder.lane else PostOutcome.OTHER_LANE
