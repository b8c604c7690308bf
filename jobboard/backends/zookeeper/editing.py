"""Reads jobs, and changes them: each change is decided on what was read, and written only if that is still so."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from jobboard.backends.zookeeper.clock import Clock
from jobboard.backends.zookeeper.engine import LARGEST, MOST_JOBS, Conflict, Engine, Sent, certain
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.line import Line
from jobboard.backends.zookeeper.moves import is_due, settle
from jobboard.backends.zookeeper.record import Newer, Record, decode
from jobboard.backends.zookeeper.requests import Data, MultiRead
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.errors import BoardUnavailable

_Answer = TypeVar("_Answer")

_ROUNDS = 200
_READ_AT_ONCE = 500
_MOST_HELD = 100_000


class Fate(enum.Enum):
    """What becomes of a job's znode."""

    KEPT = "kept"
    WRITTEN = "written"
    DROPPED = "dropped"


#: Is handed a job as it is, settled, or None; changes the record or leaves it, and gives the answer and the fate.
Decide = Callable[[Record | None, float], tuple[_Answer, Fate]]


@dataclass
class _Decided(Generic[_Answer]):
    """A decision about one job: its place in the batch, the answer, and the record that was made of it."""

    place: int
    answer: _Answer
    record: Record | None
    fate: Fate
    was_live: bool
    is_certain: bool


class Editor:
    """Reads and edits jobs by their uuids."""

    def __init__(self, line: Line, layout: Layout, engine: Engine, sessions: Sessions, clock: Clock) -> None:
        self._line, self._layout, self._engine = line, layout, engine
        self._sessions, self._clock = sessions, clock
        self._lock = threading.Lock()
        #: The jobs that this client holds, as they were when it wrote them last: their ends need no reading.
        self._held: dict[str, Record] = {}
        #: How many times jobs have been deleted from the board, as of the last look.
        self.deletions = 0

    # -- what this client holds ------------------------------------------------------------------------------------

    def hold(self, record: Record) -> None:
        with self._lock:
            self._held[record.uuid] = record
            if len(self._held) > _MOST_HELD:
                del self._held[next(iter(self._held))]

    def held_under(self, presence: str) -> list[Record]:
        with self._lock:
            return [record for record in self._held.values() if record.presence == presence]

    def held(self, uuid: str) -> Record | None:
        return self._held.get(uuid)

    def let_go(self, uuid: str) -> Record | None:
        with self._lock:
            return self._held.pop(uuid, None)

    def clear(self) -> None:
        with self._lock:
            self._held.clear()

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, uuids: Sequence[str], *, is_fresh: bool = True) -> list[Record | Newer | str | None]:
        """Return what is under these uuids: a record, one of a newer format, the uuid of an alias, or None."""
        found: list[Record | Newer | str | None] = []
        for start in range(0, len(uuids), _READ_AT_ONCE):
            part = uuids[start : start + _READ_AT_ONCE]
            request = MultiRead()
            request.get(self._line.chroot + self._layout.sessions)
            request.get(self._line.chroot + self._layout.deleted)
            for uuid in part:
                request.get(self._line.chroot + self._layout.job(uuid))
            sessions, deleted, *jobs = self._line.read(request, is_fresh=is_fresh)
            if sessions is None or deleted is None:
                raise BoardUnavailable(f"{self._layout.sessions} is missing; was the board deleted?")
            if not self._sessions.are_known_at(sessions.stat):
                self._sessions.look()
            self.deletions = version = deleted.stat.version
            found += [decoded(uuid, data, version) for uuid, data in zip(part, jobs, strict=True)]
        return found

    def count_deletions(self) -> None:
        """Learn how many times jobs have been deleted by now."""
        request = MultiRead()
        request.get(self._line.chroot + self._layout.deleted)
        (deleted,) = self._line.read(request)
        if deleted is not None:
            self.deletions = deleted.stat.version

    def records(self, uuids: Sequence[str]) -> list[Record | None]:
        """Return the jobs of these uuids, settled, with all that is long; None for those that are not."""
        found = self._plain(uuids)
        now = self._clock.now()
        is_present = self._sessions.is_present
        due = [record.uuid for record in found if record is not None and is_due(record, now, is_present)]
        if due:
            self.settle(due)
            found = self._plain(uuids)
        return self._whole(found)

    def _whole(self, found: list[Record | None]) -> list[Record | None]:
        """Return the records with all that is long; those that were written meanwhile are read again for that."""
        torn = self.complete([record for record in found if record is not None])
        for _ in range(_ROUNDS):
            if not torn:
                break
            versions = {record.uuid: record.zxid for record in torn}
            again = dict(zip(versions, self._plain(list(versions)), strict=True))
            found = [again.get(record.uuid, record) if record is not None else None for record in found]
            # What is missing although nobody has written since is gone for good.
            changed = [record for uuid, record in again.items() if record and record.zxid != versions[uuid]]
            torn = self.complete(changed)
        return found

    def _plain(self, uuids: Sequence[str]) -> list[Record | None]:
        return [record if isinstance(record, Record) else None for record in self.read(uuids)]

    def complete(self, records: Sequence[Record]) -> list[Record]:
        """Read what is long in these records, and return those of which some is not there any more."""
        torn: dict[str, Record] = {}
        wanted = [(record, field, blob) for record in records for field, blob in record.blobs.items()]
        wanted = [(record, field, blob) for record, field, blob in wanted if not getattr(record, field)]
        for start in range(0, len(wanted), 16):
            part = wanted[start : start + 16]
            request = MultiRead()
            for _, _, blob in part:
                request.get(self._line.chroot + self._layout.blob(blob))
            for (record, field, _), data in zip(part, self._line.read(request, is_fresh=False), strict=True):
                if data is None:
                    torn[record.uuid] = record
                else:
                    setattr(record, field, data.data.decode() if field == "last_error" else data.data)
        return list(torn.values())

    # -- editing ---------------------------------------------------------------------------------------------------

    def settle(self, uuids: Sequence[str]) -> list[Record | None]:
        """Write down what time, or the end of a session, has made of these jobs; returns them as they are then."""
        return self.edit([(uuid, _leave) for uuid in uuids])

    def edit(self, steps: Sequence[tuple[str, Decide[_Answer]]], *, use_held: bool = False) -> list[_Answer]:
        """Carry the steps out, each atomically; two for the same job one after the other.

        :param use_held: decide on what this client remembers of the jobs that it holds, if that leads to a write, which
            then fails if it was not so any more.
        """
        answers: dict[int, _Answer] = {}
        pending = list(enumerate(steps))
        began = False
        gone: set[str] = set()
        try:
            for _ in range(_ROUNDS):
                if not pending:
                    break
                now_, later = _first_of_each(pending)
                decided = self._decide(now_, use_held)
                for done in self._write(decided, gone):
                    began = began or done.fate is not Fate.KEPT
                    answers[done.place] = done.answer
                use_held = False
                pending = [(place, step) for place, step in now_ if place not in answers] + later
            else:
                raise BoardUnavailable("others change the same jobs faster than this client can")
        except BoardUnavailable as error:
            for _, (uuid, _) in pending:
                self.let_go(uuid)
            raise certain(error, began=began) from error
        return [answers[place] for place in range(len(steps))]

    def _decide(
        self, steps: Sequence[tuple[int, tuple[str, Decide[_Answer]]]], use_held: bool
    ) -> list[_Decided[_Answer]]:
        records: dict[str, Record | None] = {}
        if use_held:
            held = {uuid: self.let_go(uuid) for _, (uuid, _) in steps}
            # Otherwise it may be another job of the same uuid by now.
            records = {uuid: one for uuid, one in held.items() if one and one.deletions == self.deletions}
        certain_ = [uuid for _, (uuid, _) in steps if uuid not in records]
        if certain_:
            for uuid, found in zip(certain_, self.read(certain_), strict=True):
                records[uuid] = found if isinstance(found, Record) else None
        now = self._clock.now()
        known = set(certain_)
        return [
            self._decided(place, decide, records[uuid], now, is_certain=uuid in known)
            for place, (uuid, decide) in steps
        ]

    def _decided(
        self, place: int, decide: Decide[_Answer], record: Record | None, now: float, *, is_certain: bool
    ) -> _Decided[_Answer]:
        was_live = record is not None and record.is_live
        was_settled = record is not None and settle(record, now, self._sessions.is_present)
        answer, fate = decide(record, now)
        if was_settled and fate is Fate.KEPT:
            fate = Fate.WRITTEN
        return _Decided(place, answer, record, fate, was_live, is_certain)

    def _write(self, decided: Sequence[_Decided[_Answer]], gone: set[str]) -> list[_Decided[_Answer]]:
        """Write what was decided, and return what is done.

        :param gone: what need not be removed with a job, since somebody has done so by hand; is added to.
        """
        done = [one for one in decided if one.fate is Fate.KEPT and one.is_certain]
        changed = [one for one in decided if one.fate is not Fate.KEPT and one.record is not None]
        if not changed:
            return done
        self._prepare(changed)
        self._engine.outsource([one.record for one in changed if one.record and one.fate is Fate.WRITTEN])
        sent: list[tuple[list[_Decided[_Answer]], Sent]] = []
        try:
            # All are on their way before the first answer is here.
            for part_and_transaction in self._send(changed, gone):
                sent.append(part_and_transaction)
            for part, transaction in sent:
                try:
                    self._engine.settle(transaction)
                    done += part
                except Conflict as conflict:
                    if conflict.is_gone:
                        gone.add(conflict.path)
        except BoardUnavailable as error:
            is_whole = len(sent) == 1 and len(sent[0][0]) == len(changed)
            raise certain(error, began=bool(sent) and not is_whole) from error
        for one in done:
            if one.record is not None and one.record.presence is not None:
                self._keep(one.record)
        return done

    def _prepare(self, changed: Sequence[_Decided[_Answer]]) -> None:
        for one in changed:
            if one.record is not None and one.record.key is not None and one.record.is_live and not one.was_live:
                self._engine.make_room_for(one.record)

    def _send(
        self, changed: Sequence[_Decided[_Answer]], gone: set[str]
    ) -> Iterator[tuple[list[_Decided[_Answer]], Sent]]:
        """Send what was decided in as few transactions as it takes."""
        rest = list(reversed(changed))
        while rest:
            writing = self._engine.begin(gone)
            self._engine.expect(writing, [one.record for one in rest if one.record is not None])
            part: list[_Decided[_Answer]] = []
            while rest and len(part) < MOST_JOBS and writing.size < LARGEST:
                one = rest.pop()
                assert one.record is not None
                if one.fate is Fate.DROPPED:
                    self._engine.drop(writing, one.record)
                else:
                    self._engine.write(writing, one.record, was_live=one.was_live)
                part.append(one)
            yield part, self._engine.send(writing)

    def _keep(self, record: Record) -> None:
        """Remember a job that this client holds."""
        if record.presence == self._sessions.present:
            self.hold(record)


def decoded(uuid: str, data: Data | None, deletions: int) -> Record | Newer | str | None:
    """Return what was read under a uuid.

    :param deletions: how many times jobs had been deleted by then, or before.
    """
    if data is None:
        return None
    record = decode(uuid, data.data, data.stat)
    if isinstance(record, Record):
        record.deletions = deletions
    return record


def _leave(record: Record | None, _now: float) -> tuple[Record | None, Fate]:
    return record, Fate.KEPT


def _first_of_each(
    pending: Sequence[tuple[int, tuple[str, Decide[_Answer]]]],
) -> tuple[list[tuple[int, tuple[str, Decide[_Answer]]]], list[tuple[int, tuple[str, Decide[_Answer]]]]]:
    """Part the first step of each job from those that come after it."""
    first: list[tuple[int, tuple[str, Decide[_Answer]]]] = []
    later: list[tuple[int, tuple[str, Decide[_Answer]]]] = []
    seen: set[str] = set()
    for place, step in pending:
        (later if step[0] in seen else first).append((place, step))
        seen.add(step[0])
    return first, later
