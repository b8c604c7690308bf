"""The producers' primitives: post, and cancel."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.memory.client import Client
from jobboard.backends.memory.row import Row, draft, fill
from jobboard.backends.memory.shelf import Shelf
from jobboard.backends.rows import CancelOutcome, IfExists, NewJob, Posted, PostOutcome
from jobboard.events import HISTORY_LENGTH, EventKind


class Posting(Client):
    """Plans a whole batch before it changes anything, so that all or none are posted."""

    def post(self, entries: Sequence[NewJob]) -> list[Posted]:
        with self._lock:
            now = self._begin()
            plan = _Plan(self._shelf, now)
            steps = [plan.step(new) for new in entries]
            if all(outcome is not PostOutcome.TAKEN for outcome, _ in steps):
                for new, (outcome, row) in zip(entries, steps, strict=True):
                    if outcome is PostOutcome.POSTED:
                        self._shelf.enter(row, now)
                    elif outcome is PostOutcome.REPLACED:
                        self._replace(row, new, now)
            return [Posted(outcome, row.copy()) for outcome, row in steps]

    def _replace(self, row: Row, new: NewJob, now: float) -> None:
        shelf = self._shelf
        shelf.move(row, None)
        fill(row, new, now)
        row.rank()
        shelf.put(row)
        shelf.write(row, EventKind.REPLACED, now, reason=new.uuid)
        shelf.aliases[new.uuid] = row
        row.aliases.append(new.uuid)
        if len(row.aliases) > HISTORY_LENGTH:
            del shelf.aliases[row.aliases.pop(0)]

    def cancel(self, uuids: Sequence[str]) -> list[CancelOutcome]:
        with self._lock:
            now = self._begin()
            gone = [self._cancel(uuid, now) for uuid in uuids]
            self._shelf.forget(2 * len(uuids), now)
            return gone

    def _cancel(self, uuid: str, now: float) -> CancelOutcome:
        shelf = self._shelf
        row = shelf.rows.get(uuid)
        if row is None:
            return CancelOutcome.MISSING
        if row.line is shelf.claimed:
            if not row.cancel_asked:
                row.cancel_asked = True
                shelf.write(row, EventKind.CANCEL_ASKED, now, row.owner, row.token)
            return CancelOutcome.ASKED
        if shelf.is_live(row):
            shelf.take_off(row, now)
            return CancelOutcome.CANCELLED
        return CancelOutcome.REPEATED if row.has_note((EventKind.CANCELLED,)) else CancelOutcome.MISSING


class _Plan:
    """What would become of each posting of a batch, those before it counted in."""

    def __init__(self, shelf: Shelf, now: float) -> None:
        self._shelf = shelf
        self._now = now
        self._by_uuid: dict[str, Row] = {}
        self._by_key: dict[tuple[str, str], Row] = {}

    def step(self, new: NewJob) -> tuple[PostOutcome, Row]:
        shelf = self._shelf
        known = shelf.rows.get(new.uuid) or shelf.aliases.get(new.uuid) or self._by_uuid.get(new.uuid)
        if known is not None:
            return PostOutcome.SAME, known
        holder = self._holder_of_key(new)
        if holder is None:
            return PostOutcome.POSTED, self._draft(new)
        if new.if_exists is IfExists.KEEP:
            return PostOutcome.KEPT, holder
        if new.if_exists is IfExists.REPLACE and holder.line is not shelf.claimed:
            self._by_uuid[new.uuid] = holder
            return PostOutcome.REPLACED, holder
        return PostOutcome.TAKEN, holder

    def _holder_of_key(self, new: NewJob) -> Row | None:
        if new.key is None:
            return None
        place = (new.name, new.key)
        return self._shelf.keys.get(place) or self._by_key.get(place)

    def _draft(self, new: NewJob) -> Row:
        row = self._by_uuid[new.uuid] = draft(new, self._now)
        if new.key is not None:
            self._by_key[new.name, new.key] = row
        return row
