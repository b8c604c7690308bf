"""Limits of names: each is divided among the shards; where there are fewer than shards, these take turns with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobboard.backends.findings import AuditFinding
from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.rows import Verdict
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.ledger import Ledger
from jobboard.backends.shards.shares import Shares, share_of
from jobboard.backends.shards.slots import NameLimit, Slots, Stage, begin, with_slots
from jobboard.backends.shards.turns import Turns
from jobboard.errors import BoardUnavailable, ReplyLost
from jobboard.validation import new_uuid

#: How often a shard is told again, because others write the same limit meanwhile.
_MAX_TRIES = 20


class NameLimits:
    """The ledger decides which change of a limit is the present one; then all shards are told their shares."""

    def __init__(self, fleet: Fleet, ledger: Ledger, turns: Turns) -> None:
        self._fleet, self._ledger, self._turns, self._shares = fleet, ledger, turns, Shares(fleet)

    def all(self, first: Sequence[LimitRow]) -> list[LimitRow]:
        """Return the limits of all names.

        :param first: those of the first shard; what an earlier jobboard has set is divided, and not in the ledger.
        """
        entries = self._ledger.read()
        older = [row for row in first if row.limit.name is not None and row.limit.name not in entries]
        rows = [entry.row for entry in entries.values() if not entry.row.limit.is_empty]
        return [*rows, *(self._sum_of(row) for row in older)]

    def _sum_of(self, row: LimitRow) -> LimitRow:
        parts = [self._shares.get(number, row.key) for number in self._fleet.present]
        running = sum(part.limit.running or 0 for part in parts if part is not None)
        return replace(row, limit=replace(row.limit, running=running))

    # -- changes ---------------------------------------------------------------------------------------------------

    def put(self, row: LimitRow, after: str | None) -> Verdict:
        """Write the limit of a name, and tell all shards."""
        present, name = self._fleet.present, row.key[1]
        older = self._shares.version(present[0], row.key)
        verdict = Verdict.LOST

        def change(old: NameLimit | None) -> NameLimit | None:
            nonlocal verdict
            is_there = old is not None and (not old.row.limit.is_empty or old.row.version == row.version)
            stored = old.row.version if old is not None and is_there else None if old is not None else older
            verdict = row.verdict(stored, after)
            return begin(old, row, present) if verdict is Verdict.DONE else old

        with self._fleet.roster.limit():
            self._ledger.change(name, change)
        if verdict is not Verdict.LOST:
            try:
                self.tell(name)
            except BoardUnavailable as error:
                if isinstance(error, ReplyLost):
                    raise
                raise ReplyLost(f"whether all shards know the limit of {name!r} is unknown: {error}") from error
        return verdict

    def tell_all(self) -> None:
        """Go on where clients were killed."""
        for name, entry in self._ledger.read().items():
            if not entry.is_told:
                self.tell(name)

    def tell(self, name: str) -> None:
        """Tell all shards of a limit, unless they know; idempotent.

        :raises BoardUnavailable: one can't be told.
        """
        entry = self._ledger.get(name)
        if entry is None or entry.is_told:
            return
        for number in self._fleet.present:
            if entry.slots is None or number == self._fleet.present[0]:
                self._tell(number, entry)
        if entry.slots is not None:
            self._turns.take(name)
        self._ledger.change(name, lambda now: _told(entry, now))

    def _tell(self, number: int, wanted: NameLimit) -> None:
        """Tell a shard of its share; where shards take turns, the first one tells who listens to the board, too."""
        for _ in range(_MAX_TRIES):
            version = self._shares.version(number, wanted.row.key)
            # After the version was read.
            entry = self._ledger.get(wanted.row.key[1])
            if entry is None or entry.row.version != wanted.row.version:
                return
            if entry.slots is None and version == _version_of(entry):
                return
            if self._shares.put(number, self._share(number, entry), version):
                return
        raise BoardUnavailable(f"others change the limit of the name {wanted.row.key[1]!r} all the time; try again")

    def _share(self, number: int, entry: NameLimit) -> LimitRow:
        row, running, present = entry.row, entry.row.limit.running, self._fleet.present
        if entry.slots is not None:
            slots = entry.slots.get(number)
            running = slots.left if slots is not None and slots.stage is Stage.HELD else 0
            return share_of(row, new_uuid(), running, str(row.limit))
        if running is not None:
            whole, rest = divmod(running, len(present))
            running = whole + (present.index(number) < rest)
        return share_of(row, row.version, running, str(row.limit))

    # -- audit -----------------------------------------------------------------------------------------------------

    def audit(self, repair: bool) -> list[AuditFinding]:
        """Find shards that have not the share that they should have; they are told if told to."""
        before = self._ledger.read()
        there = {number: self._of_names(number) for number in self._fleet.present}
        entries = self._ledger.read()
        first = self._fleet.present[0]
        found = []
        for number, rows in there.items():
            for name in sorted(rows.keys() | entries.keys()):
                entry, row = entries.get(name), rows.get(name)
                if entry is None or name not in before:
                    is_wrong = entry is None and not _are_alike(row, there[first].get(name))
                else:
                    # What changes just now nobody can judge.
                    is_wrong = entry.step == before[name].step and _is_wrong(number, row, entry)
                if is_wrong:
                    if repair and entry is not None:
                        self._mend(number, name)
                    advice = "" if entry is not None else "; set it again, or set and remove it"
                    problem = f"shard {number} has not the limit of name {name!r} that it should have{advice}"
                    found.append(AuditFinding(None, problem, repaired=repair and entry is not None))
        return found

    def _of_names(self, number: int) -> dict[str, LimitRow]:
        return {row.key[1]: row for row in self._shares.all(number) if row.limit.name is not None}

    def _mend(self, number: int, name: str) -> None:
        """Let a shard be told again; what runs there counts meanwhile."""

        def doubt(entry: NameLimit | None) -> NameLimit | None:
            if entry is None or entry.slots is None:
                return entry and replace(entry, is_told=False, step=entry.step + 1)
            slots = entry.slots.get(number)
            most = entry.running + 1 if slots is None else slots.count
            doubtful = Slots(entry.step, 0.0, Stage.LEAVING, most, 0)
            return replace(with_slots(entry, number, doubtful), is_told=False)

        self._ledger.change(name, doubt)
        self.tell(name)


def _told(before: NameLimit, entry: NameLimit | None) -> NameLimit | None:
    """Return a limit that all shards know; None for one that is removed.

    :raises BoardUnavailable: some could not be told that slots leave them.
    """
    if entry is None or entry.row.version != before.row.version:
        return entry
    now = entry.slots or {}
    untold = [number for number, each in (before.slots or {}).items() if each.is_untold and now.get(number) == each]
    if untold:
        raise BoardUnavailable(f"shards {untold} do not know it yet")
    return None if entry.row.limit.is_empty else replace(entry, is_told=True, step=entry.step + 1)


def _version_of(entry: NameLimit) -> str | None:
    """Return the version that all shards have in the end of a limit that is divided, 0 or removed."""
    return None if entry.row.limit.is_empty else entry.row.version


def _are_alike(one: LimitRow | None, other: LimitRow | None) -> bool:
    return (one and one.version) == (other and other.version)


def _is_wrong(number: int, row: LimitRow | None, entry: NameLimit) -> bool:
    if entry.slots is None:
        return (row and row.version) != _version_of(entry)
    slots, running = entry.slots.get(number), None if row is None else row.limit.running
    if slots is not None and slots.stage is Stage.HELD:
        return running != slots.left
    return running is None or running > (0 if slots is None else slots.count)
