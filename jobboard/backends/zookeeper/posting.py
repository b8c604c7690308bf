"""The producers' primitives: post, and cancel."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.rows import CancelOutcome, IfExists, NewJob, Posted, PostOutcome
from jobboard.backends.zookeeper.checks import uuid_in
from jobboard.backends.zookeeper.client import Client
from jobboard.backends.zookeeper.editing import Fate
from jobboard.backends.zookeeper.engine import LARGEST, Conflict, Writing, certain
from jobboard.backends.zookeeper.moves import fill, is_due, replace, take_off
from jobboard.backends.zookeeper.record import LONGEST_INLINE, Newer, Record, draft, encode_alias
from jobboard.backends.zookeeper.requests import Data, MultiRead
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind
from jobboard.states import JobState

_Key = tuple[str, str]

_ROUNDS = 200
#: What a batch may hold in the jobs' own znodes, in bytes, so that it fits a transaction.
_MOST_INLINE = 150_000


class Posting(Client):
    """Plans a whole batch before it writes anything, and writes it in one transaction."""

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        self._begin()
        plan = self._likely_plan(rows)
        for _ in range(_ROUNDS):
            steps = plan.steps()
            if any(outcome is PostOutcome.TAKEN for outcome, _ in steps):
                return self._told(steps)
            changed = _changed(rows, steps)
            if not changed:
                return self._told(steps)
            try:
                self._prepare(changed)
                writing = self._engine.begin()
                self._add(writing, changed)
                self._engine.commit(writing)
            except Conflict:
                plan = self._certain_plan(rows)
                continue
            try:
                return self._told(steps)
            except BoardUnavailable as error:
                raise certain(error, began=True) from error
        raise BoardUnavailable("others post under the same keys faster than this client can")

    def _told(self, steps: Sequence[tuple[PostOutcome, Record]]) -> list[Posted]:
        torn = self._editor.complete([record for _, record in steps])
        again = {record.uuid: record for record in self._editor.records([record.uuid for record in torn]) if record}
        return [Posted(outcome, again.get(record.uuid, record).copy()) for outcome, record in steps]

    def _likely_plan(self, rows: Sequence[NewJob]) -> Plan:
        """Plan for the usual case that none of these uuids is there yet; the transaction itself finds out."""
        plan = Plan(rows, self._clock.now())
        keyed, holders = self._holders(plan)
        if any(holders):
            self._take_in(plan, keyed, holders)
        return plan

    def _certain_plan(self, rows: Sequence[NewJob]) -> Plan:
        """Plan after a look at which of these uuids and keys are there, and what has them."""
        plan = Plan(rows, self._clock.now())
        self._take_in(plan, *self._holders(plan))
        return plan

    def _holders(self, plan: Plan) -> tuple[list[_Key], list[Data | None]]:
        """Return the plan's keys, and what is under each."""
        keyed = sorted({(new.name, new.key) for new in plan.rows if new.key is not None})
        if not keyed:
            return [], []
        request = MultiRead()
        for name, key in keyed:
            request.get(self._line.chroot + self._layout.key(name, key))
        return keyed, self._line.read(request)

    def _take_in(self, plan: Plan, keyed: Sequence[_Key], holders: Sequence[Data | None]) -> None:
        rows = plan.rows
        uuids = list(dict.fromkeys(new.uuid for new in rows))
        uuids += [uuid_in(data) for data in holders if data is not None]
        records = self._settled(list(dict.fromkeys(uuids)))
        for new in rows:
            if (record := records.get(new.uuid)) is not None:
                plan.by_uuid[new.uuid] = record
        for (name, key), data in zip(keyed, holders, strict=True):
            holder = None if data is None else records.get(uuid_in(data))
            if holder is not None and holder.is_live:
                plan.by_key[name, key] = holder

    def _settled(self, uuids: Sequence[str]) -> dict[str, Record]:
        """Return what is under these uuids, aliases followed."""
        found: dict[str, Record] = {}
        aliases: dict[str, str] = {}
        for uuid, record in zip(uuids, self._editor.read(uuids), strict=True):
            if isinstance(record, Newer):
                raise BoardUnavailable(f"job {uuid} is of format {record.format}; upgrade this client")
            if isinstance(record, str):
                aliases[uuid] = record
            elif record is not None:
                found[uuid] = record
        now = self._clock.now()
        due = [uuid for uuid, record in found.items() if is_due(record, now, self._sessions.is_present)]
        if due:
            self._editor.settle(due)
        again = [*due, *{target for target in aliases.values() if target not in found}]
        if again:
            for uuid, record in zip(again, self._editor.records(again), strict=True):
                if record is not None:
                    found[uuid] = record
                else:
                    found.pop(uuid, None)
        return found | {alias: found[uuid] for alias, uuid in aliases.items() if uuid in found}

    def _prepare(self, changed: Sequence[tuple[NewJob, PostOutcome, Record]], room: int = LARGEST) -> None:
        layout = self._layout
        paths = [layout.job(new.uuid) for new, _, _ in changed]
        paths += [layout.key(new.name, new.key) for new, _, _ in changed if new.key is not None]
        self._engine.make_room(paths)
        records = [record for _, _, record in changed]
        size = sum(min(len(record.body), LONGEST_INLINE) for record in records)
        self._engine.outsource(records, LONGEST_INLINE if size <= _MOST_INLINE else 256, room)

    def _add_postings(self, writing: Writing, plan: Plan) -> None:
        """Add postings to a transaction that does something else too.

        If a key is taken by a claimed job that was to be replaced, nothing is posted, and the transaction goes on.
        """
        steps = plan.steps()
        if any(outcome is PostOutcome.TAKEN for outcome, _ in steps):
            return
        changed = _changed(plan.rows, steps)
        self._prepare(changed, LARGEST - writing.size)
        self._add(writing, changed)

    def _add(self, writing: Writing, changed: Sequence[tuple[NewJob, PostOutcome, Record]]) -> None:
        known = [record for _, outcome, record in changed if outcome is PostOutcome.REPLACED and record.zxid]
        if known:
            self._engine.expect(writing, known)
        for new, outcome, record in changed:
            if outcome is PostOutcome.POSTED and record.uuid == new.uuid:
                self._engine.write(writing, record, was_live=False, is_new=True)
        replaced = {record.uuid: record for _, outcome, record in changed if outcome is PostOutcome.REPLACED}
        for record in replaced.values():
            if record.zxid:
                self._engine.write(writing, record, was_live=True)
        for new, outcome, record in changed:
            if outcome is PostOutcome.REPLACED:
                writing.create(self._layout.job(new.uuid), encode_alias(record.uuid))
        for alias in {alias for record in replaced.values() for alias in record.forgotten_aliases}:
            writing.delete(self._layout.job(alias))

    def cancel(self, uuids: Sequence[str]) -> list[CancelOutcome]:
        self._begin()
        return self._editor.edit([(uuid, _cancel) for uuid in uuids])


def _changed(
    rows: Sequence[NewJob], steps: Sequence[tuple[PostOutcome, Record]]
) -> list[tuple[NewJob, PostOutcome, Record]]:
    """Return the postings that change something, with what they make of which job."""
    return [
        (new, outcome, record)
        for new, (outcome, record) in zip(rows, steps, strict=True)
        if outcome in (PostOutcome.POSTED, PostOutcome.REPLACED)
    ]


def _cancel(record: Record | None, now: float) -> tuple[CancelOutcome, Fate]:
    if record is None:
        return CancelOutcome.MISSING, Fate.KEPT
    if record.state is JobState.CLAIMED:
        if record.cancel_asked:
            return CancelOutcome.ASKED, Fate.KEPT
        record.cancel_asked = True
        record.note(EventKind.CANCEL_ASKED, record.owner, record.token, None)
        return CancelOutcome.ASKED, Fate.WRITTEN
    if record.is_live:
        take_off(record, now)
        return CancelOutcome.CANCELLED, Fate.WRITTEN
    return (CancelOutcome.REPEATED if record.has_note((EventKind.CANCELLED,)) else CancelOutcome.MISSING), Fate.KEPT


class Plan:
    """What becomes of each posting of a batch, those before it counted in."""

    def __init__(self, rows: Sequence[NewJob], now: float) -> None:
        self.rows = rows
        self.by_uuid: dict[str, Record] = {}
        self.by_key: dict[tuple[str, str], Record] = {}
        self._now = now

    def steps(self) -> list[tuple[PostOutcome, Record]]:
        steps = [self._step(new, index) for index, new in enumerate(self.rows)]
        if all(outcome is not PostOutcome.TAKEN for outcome, _ in steps):
            for new, (outcome, record) in zip(self.rows, steps, strict=True):
                if outcome is PostOutcome.REPLACED:
                    forgotten = replace(record, new, self._now)
                    if forgotten is not None:
                        record.forgotten_aliases.append(forgotten)
        return steps

    def _step(self, new: NewJob, index: int) -> tuple[PostOutcome, Record]:
        known = self.by_uuid.get(new.uuid)
        if known is not None:
            return PostOutcome.SAME, known
        holder = None if new.key is None else self.by_key.get((new.name, new.key))
        if holder is None:
            return PostOutcome.POSTED, self._draft(new, index)
        if new.if_exists is IfExists.KEEP:
            return PostOutcome.KEPT, holder
        if new.if_exists is IfExists.REPLACE and holder.state is not JobState.CLAIMED:
            self.by_uuid[new.uuid] = holder
            return PostOutcome.REPLACED, holder
        return PostOutcome.TAKEN, holder

    def _draft(self, new: NewJob, index: int) -> Record:
        record = self.by_uuid[new.uuid] = draft(new, index)
        fill(record, new, self._now)
        record.note(EventKind.POSTED, None, None, None)
        if new.key is not None:
            self.by_key[new.name, new.key] = record
        return record
