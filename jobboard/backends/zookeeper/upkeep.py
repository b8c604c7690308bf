"""Keeping a board up to date: expiry, promotion, and the deletion of what can't be seen any more."""

from __future__ import annotations

from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.sweep import LANES_PER_LOOK
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.edge_resolver import MAX_PARENTS, EdgeResolver
from jobboard.backends.zookeeper.entities import Entities
from jobboard.backends.zookeeper.lane_looks import LaneLooks
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.remains import Remains
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.units import Write
from jobboard.errors import BoardUnavailable

MAX_PROMOTED = 200


class Upkeep:
    """Brings the whole board up to the present, and deletes what is no longer remembered."""

    def __init__(
        self,
        clock: ServerClock,
        sessions: Sessions,
        listing: Listing,
        change_log: ChangeLogReader,
        jobs: ReadModifyWrite,
        entities: Entities,
        looks: LaneLooks,
        resolver: EdgeResolver,
        remains: Remains,
    ) -> None:
        self._clock, self._sessions, self._listing, self._looks = clock, sessions, listing, looks
        self._change_log, self._jobs, self._entities = change_log, jobs, entities
        self._resolver, self._remains = resolver, remains

    def catch_up(self) -> float:
        """Catch up with the board and bring it up to this moment, which is returned."""
        self._change_log.refresh()
        return self.expire_and_promote()

    def expire_and_promote(self) -> float:
        """Bring the whole board up to this moment, which is returned; the listing must be in step."""
        now = self._clock.now()
        with self._listing.lock:
            self._listing.hide(now)
            due = self._listing.due(now)
            for presence in self._listing.by_presence:
                if not self._sessions.is_present(presence):
                    due += self._listing.by_presence[presence]
        # What becomes due meanwhile, or is changed by others, is for the next look.
        due = list(dict.fromkeys(due))
        for start in range(0, len(due), MAX_PROMOTED):
            part = due[start : start + MAX_PROMOTED]
            for uuid, job in zip(part, self._jobs.expire_and_promote(part), strict=True):
                # A znode that was damaged or deleted has no line in the log, and would stay due for ever.
                self._change_log.correct(uuid, job)
        with self._listing.lock:
            marks = self._listing.marks.due(now, MAX_PARENTS)
        self._resolver.work_off(marks)
        with self._listing.lock:
            lanes = self._listing.guards.due(now, LANES_PER_LOOK)
        self._looks.look(lanes)
        if due or marks or lanes:
            self._change_log.refresh()
        return now

    def tidy(self, limit: int) -> int:
        now = self.catch_up()
        with self._listing.lock:
            uuids = self._listing.forgettable(now, limit)
        try:
            count = self._forget(uuids)
        except BoardUnavailable:
            with self._listing.lock:
                self._listing.remember(uuids, now)
            raise
        self._change_log.tidy()
        return count + self._entities.forget(limit - count) + self._remains.sweep()

    def _forget(self, uuids: list[str]) -> int:
        """Delete jobs, and before them what they have beside their own znodes; return how many are gone."""
        rich: list[str] = []

        def forget(job: StoredJob | None, now: float) -> tuple[bool, Write]:
            if job is not None and job.leaves_folders and job.is_forgettable(now):
                rich.append(job.uuid)
                return False, Write.NOTHING
            return _forget(job, now)

        count = sum(self._jobs.edit([(uuid, forget) for uuid in uuids]))
        if rich:
            self._remains.clean(rich)
            count += sum(self._jobs.edit([(uuid, _forget) for uuid in rich]))
        return count


def _forget(job: StoredJob | None, now: float) -> tuple[bool, Write]:
    """Delete what is remembered no longer; a job that came back meanwhile stays."""
    is_forgettable = job is not None and job.is_forgettable(now)
    return is_forgettable, Write.DELETE if is_forgettable else Write.NOTHING
