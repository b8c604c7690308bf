"""Finding the next jobs and owning them, without a search and without everybody trying the same one."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.backends.zookeeper.claiming import Claiming
from jobboard.backends.zookeeper.editing import decoded
from jobboard.backends.zookeeper.engine import LARGEST, MOST_JOBS, Conflict, certain
from jobboard.backends.zookeeper.listing import Item
from jobboard.backends.zookeeper.record import Record, size_of
from jobboard.backends.zookeeper.requests import Data, MultiRead
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

_ROUNDS = 500
#: How many of the next jobs are read along with the first, for the claims that come.
_AHEAD = 32
#: Among how many of the best jobs a claim is drawn at most, after others were faster again and again.
_WIDEST = 32
#: After so many claims that met nobody, the draw is narrowed by half.
_CALM = 16
#: After so many seconds without a lost race the best job is the one that is taken, as ever.
_CALM_SECONDS = 1.0
_MOST_BYTES_AHEAD = 64_000

#: A job as it was read, and how many times jobs had been deleted before.
_Known = tuple[Data, int]


class Drawing(Claiming):
    """Takes the best job there is; after a lost race, one of the best few, so that those who race spread out."""

    def _assemble(self) -> None:
        super()._assemble()
        self._width, self._calm, self._lost_at = 1, 0, 0.0
        #: When others were last found to have made a job claimable that this client knew nothing of.
        self._crowded_at = -_CALM_SECONDS
        #: Jobs as they were read ahead; if that is not so any more, the transaction fails.
        self._ahead: dict[str, _Known] = {}
        #: Jobs that a thread of this client is about to claim.
        self._busy: set[str] = set()
        #: How many claims were made, and how many were lost to others: the measure of how they are spread.
        self.claims = self.lost_claims = 0

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        self._begin()
        if self._width > 1 and time.monotonic() - self._lost_at > _CALM_SECONDS:
            self._width = 1
        found: list[Record] = []
        try:
            self._find(claim, names, limit, found)
        except BoardUnavailable as error:
            # Those that are owned by now are found again by their claim id.
            raise certain(error, began=bool(found)) from error
        found.sort(key=lambda record: (-record.priority, record.sequence))
        return [record.copy() for record in found]

    def _find(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int, found: list[Record]) -> None:
        """Own the best jobs, and add them to ``found``."""
        must_look = False
        for _ in range(_ROUNDS):
            # Alone, with nothing that others could have added, the transaction itself makes sure of that.
            ready = None if must_look or not self._is_alone() else self._tracker.ready_version
            wanted = min(limit - len(found), MOST_JOBS)
            data = {} if ready is not None else self._catch_up(names, wanted)
            if ready is None:
                self._settle_all()
            drawn = self._draw(names, wanted)
            try:
                if drawn:
                    if not self._own(drawn, data, claim, ready, found):
                        must_look = True
                        continue
                    must_look = False
                elif ready is not None:
                    must_look = True
                    continue
            finally:
                self._busy.difference_update(item.uuid for item in drawn)
            # If there are fewer, these are all: the look has said so, or the transaction that nothing was added.
            if len(found) >= limit or len(drawn) < wanted:
                return
        if not found:
            raise BoardUnavailable("others claim faster than this client can")

    def _is_alone(self) -> bool:
        with self._listing.lock:
            now = self._clock.now()
            return (
                self._tracker.is_in_step
                and self._tracker.ready_version is not None
                and self._width == 1
                and time.monotonic() - self._crowded_at > _CALM_SECONDS
                and not self._listing.due(now, 1)
            )

    def _catch_up(self, names: frozenset[str] | None, wanted: int) -> dict[str, _Known]:
        """Catch up with the board, and read in the same request what will probably be drawn."""
        with self._listing.lock:
            items = self._listing.ready(names, self._width * wanted if wanted == 1 else wanted)
        uuids = [item.uuid for item in items if item.uuid not in self._ahead]
        deletions = self._editor.deletions
        found = self._tracker.refresh([self._layout.job(uuid) for uuid in uuids])
        return {uuid: (data, deletions) for uuid, data in zip(uuids, found, strict=True) if data is not None}

    def _draw(self, names: frozenset[str] | None, wanted: int) -> list[Item]:
        """Choose the best jobs, or some of the best."""
        with self._listing.lock:
            items = [
                item
                for item in self._listing.ready(names, self._width * wanted + len(self._busy))
                if item.uuid not in self._busy
            ]
            if self._width > 1 and len(items) > wanted:
                start = random.randrange(len(items) - wanted + 1)
                items = items[start:]
            drawn = items[:wanted]
            self._busy.update(item.uuid for item in drawn)
            return drawn

    def _own(
        self,
        drawn: Sequence[Item],
        data: dict[str, _Known],
        claim: ClaimRequest,
        ready: int | None,
        found: list[Record],
    ) -> bool:
        """Own what was drawn; False if somebody was faster."""
        records = self._records_of(drawn, data)
        if len(records) < len(drawn):
            return False
        while records:
            part: list[Record] = []
            size = 0
            while records and (not part or size < LARGEST):
                record = records.pop(0)
                size += size_of(record)
                part.append(record)
            self.claims += len(part)
            try:
                self._grant(part, claim, self._tracker.paused_version, ready)
            except Conflict as conflict:
                self._lost(conflict, is_race=ready is None)
                return False
            self._won()
            # The next part's check would meet nothing but this client's own doing.
            found += part
            self._editor.complete(part)
        return True

    def _records_of(self, drawn: Sequence[Item], data: dict[str, _Known]) -> list[Record]:
        """Return the drawn jobs as they were read; those that can't be claimed any more are left out."""
        known: dict[str, _Known] = {}
        for item in drawn:
            one = data.get(item.uuid) or self._ahead.pop(item.uuid, None)
            # What the listing knows to be older than the job is now would only fail.
            if one is not None and one[0].stat.mzxid >= item.zxid:
                known[item.uuid] = one
        missing = [item.uuid for item in drawn if item.uuid not in known]
        if missing:
            known |= self._read_ahead(drawn, missing)
        records = []
        for item in drawn:
            record = decoded(item.uuid, *known.get(item.uuid, (None, 0)))
            if isinstance(record, Record) and record.state is JobState.UNCLAIMED:
                records.append(record)
                continue
            # The listing is behind, or somebody changed the znode without a line in the log.
            self._tracker.correct(item.uuid, record if isinstance(record, Record) else None)
        return records

    def _read_ahead(self, drawn: Sequence[Item], missing: list[str]) -> dict[str, _Known]:
        """Read what is missing, and of the jobs that come after a single one some more."""
        wanted = dict.fromkeys(missing)
        if len(drawn) == 1 and self._width == 1:
            with self._listing.lock:
                wanted |= dict.fromkeys(item.uuid for item in self._listing.ready(frozenset({drawn[0].name}), _AHEAD))
        request = MultiRead()
        for uuid in wanted:
            request.get(self._line.chroot + self._layout.job(uuid))
        deletions = self._editor.deletions
        found = dict(zip(wanted, self._line.read(request, is_fresh=False), strict=True))
        self._ahead.clear()
        size = 0
        for uuid, data in found.items():
            size += 0 if data is None else len(data.data)
            if data is not None and uuid not in missing and size < _MOST_BYTES_AHEAD:
                self._ahead[uuid] = (data, deletions)
        return {uuid: (found[uuid], deletions) for uuid in missing if found[uuid] is not None}

    def _lost(self, conflict: Conflict, *, is_race: bool) -> None:
        """Draw from more jobs after a race; who knew too little of the board has met no race."""
        self._ahead.clear()
        if conflict.path == self._layout.deleted:
            self._editor.count_deletions()
        if conflict.path == self._layout.ready:
            self._crowded_at = time.monotonic()
            self._tracker.expect_changes()
        if not conflict.path.startswith(self._layout.jobs):
            return
        self.lost_claims += 1
        if is_race:
            self._calm, self._lost_at = 0, time.monotonic()
            self._width = min(self._width * 2 if self._width > 1 else 4, _WIDEST)

    def _won(self) -> None:
        self._calm += 1
        if self._calm >= _CALM and self._width > 1:
            self._calm, self._width = 0, self._width // 2
