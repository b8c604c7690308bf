"""The producers' primitives: post, and cancel."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends import lifecycle
from jobboard.backends.memory.client import Client
from jobboard.backends.memory.row import Row, draft
from jobboard.backends.rows import CancelOutcome, NewJob, Posted, PostOutcome
from jobboard.events import HISTORY_LENGTH


class Posting(Client):
    """Plans a whole batch before it changes anything, so that all or none are posted."""

    def post(self, entries: Sequence[NewJob]) -> list[Posted]:
        with self._lock:
            now = self._begin()
            shelf = self._shelf
            plan = lifecycle.PostingPlan(shelf.find, shelf.keys.get, lambda new: draft(new, now))
            steps = [plan.step(new) for new in entries]
            if all(outcome is not PostOutcome.TAKEN for outcome, _ in steps):
                for new, (outcome, row) in zip(entries, steps, strict=True):
                    if outcome is PostOutcome.POSTED:
                        self._post(row, new, now)
                    elif outcome is PostOutcome.REPLACED:
                        self._replace(row, new, now)
            return [Posted(outcome, row.copy()) for outcome, row in steps]

    def _post(self, row: Row, new: NewJob, now: float) -> None:
        change = lifecycle.post(row, new, now)
        self._shelf.enter(row)
        self._shelf.carry_out(row, change, now)

    def _replace(self, row: Row, new: NewJob, now: float) -> None:
        shelf = self._shelf
        shelf.move(row, None)
        change = lifecycle.replace(row, new, now)
        row.rank()
        shelf.carry_out(row, change, now)
        shelf.aliases[new.uuid] = row
        row.aliases.append(new.uuid)
        if len(row.aliases) > HISTORY_LENGTH:
            del shelf.aliases[row.aliases.pop(0)]

    def cancel(self, uuids: Sequence[str]) -> list[CancelOutcome]:
        with self._lock:
            now = self._begin()
            shelf = self._shelf
            outcomes = [shelf.change(uuid, lambda row, _, now: lifecycle.cancel(row, now), uuid, now) for uuid in uuids]
            shelf.forget(2 * len(uuids), now)
            return outcomes
