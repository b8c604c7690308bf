"""Posts batches as parts of a step, under the store's lock."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from jobboard.backends import lifecycle
from jobboard.backends.edge_rows import parent_of_graph
from jobboard.backends.memory.stored_job import StoredJob, draft
from jobboard.backends.posting_plan import PostingPlan
from jobboard.backends.rows import NewJob, Posted, PostOutcome
from jobboard.events import HISTORY_LENGTH

if TYPE_CHECKING:
    from jobboard.backends.memory.store import MemoryStore


class Batch:
    """Postings that go onto the board together. It is planned before anything changes, so that all or none are posted.

    :param ending: a job that ends in the same step, so that its key is free.
    """

    def __init__(self, store: MemoryStore, rows: Sequence[NewJob], now: float, ending: StoredJob | None = None) -> None:
        self._store, self._rows, self._now, self._ending = store, rows, now, ending
        self._plan = PostingPlan(store.find, self._holder, lambda new: draft(new, now), self._missing_parent)
        self._steps = [self._plan.step(new) for new in rows]

    @property
    def is_refused(self) -> bool:
        """Whether nothing of it may be posted."""
        return any(outcome.refuses_batch for outcome, _ in self._steps)

    def answers(self) -> list[Posted]:
        """Return what has become of each posting, as its job stands now."""
        return [
            Posted(outcome, row.copy(), self._plan.missing.get(new.uuid))
            for new, (outcome, row) in zip(self._rows, self._steps, strict=True)
        ]

    def post(self) -> None:
        """Carry it out; what follows for lanes and children is done at the end of the step (``store.finish``)."""
        for new, (outcome, row) in zip(self._rows, self._steps, strict=True):
            if outcome is PostOutcome.POSTED:
                self._post(row, new)
            elif outcome is PostOutcome.REPLACED:
                self._replace(row, new)

    def post_alone(self) -> bool:
        """Carry it out in a step of its own, if it is one new job; return whether it is."""
        is_alone = len(self._rows) == 1 and self._steps[0][0] is PostOutcome.POSTED and not self._rows[0].parents
        if is_alone and self._rows[0].graph is None:
            self._keep_key(self._steps[0][1], self._rows[0])
            self._store.post_alone(self._steps[0][1], self._rows[0], self._now)
            return True
        return False

    def _holder(self, place: tuple[str, str]) -> StoredJob | None:
        """Return the job that has a key: a live one, or one that keeps it for a while after its end."""
        row = self._store.keys.get(place)
        if row is None:
            window = self._store.windows.get(place)
            return None if window is None or window[1] <= self._now else window[0]
        return None if row is self._ending and place not in self._store.windows else row

    def _missing_parent(self, new: NewJob, batch: Collection[str]) -> str | None:
        store = self._store
        if new.graph is not None:
            mark = store.edges.marks.get(parent_of_graph(new.graph))
            if mark is not None and mark.due <= self._now:
                return new.graph
        return next((uuid for uuid in new.parents if uuid not in store.rows and uuid not in batch), None)

    def _post(self, row: StoredJob, new: NewJob) -> None:
        # First: a job that is cancelled as it is posted gives its key back.
        self._keep_key(row, new)
        change = lifecycle.post(row, new, self._now)
        self._store.enter(row)
        self._store.carry_out(row, change, self._now)
        self._store.edges.connect(row, new, self._now)

    def _replace(self, row: StoredJob, new: NewJob) -> None:
        store = self._store
        was_blocked = row.index is store.blocked and row.joined_lane is not None
        store.move(row, None)
        self._keep_key(row, new)
        change = lifecycle.replace(row, new, self._now)
        store.carry_out(row, change, self._now, was_blocked=was_blocked)
        store.aliases[new.uuid] = row
        row.aliases.append(new.uuid)
        if len(row.aliases) > HISTORY_LENGTH:
            del store.aliases[row.aliases.pop(0)]

    def _keep_key(self, row: StoredJob, new: NewJob) -> None:
        if new.key_for is not None and row.key is not None:
            self._store.windows[row.name, row.key] = row, self._now + new.key_for
