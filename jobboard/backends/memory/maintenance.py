"""Pauses, tidying and the audit: what operators do to a whole board."""

from __future__ import annotations

from jobboard.backends import roles
from jobboard.backends.base import ENTITY_TTL
from jobboard.backends.findings import AuditFinding, Holder
from jobboard.backends.memory.audit import audit
from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.memory.entities import time_left
from jobboard.backends.memory.limits import Limits
from jobboard.backends.rows import Pause
from jobboard.backends.sweep import tidy_limits
from jobboard.events import EventKind, JobEvent
from jobboard.validation import moment


class Maintenance(roles.Maintenance):
    """Pauses are told as events; ``tidy`` deletes what nobody can see any more."""

    def __init__(self, client: MemoryClient, limits: Limits) -> None:
        self._limits = limits
        self._store, self._lock, self._begin = client.store, client.lock, client.begin

    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        with self._lock:
            at = moment(self._begin())
            if name not in self._store.paused:
                self._store.paused[name] = Pause(name, by, reason, at)
                self._store.tell(JobEvent(EventKind.PAUSED, None, name, by, None, at, reason))

    def resume(self, name: str | None) -> None:
        with self._lock:
            now = self._begin()
            if name in self._store.paused:
                del self._store.paused[name]
                self._store.tell(JobEvent(EventKind.RESUMED, None, name, None, None, moment(now)))
                self._store.notify(name, 0.0)

    def paused(self) -> frozenset[str | None]:
        with self._lock:
            self._begin()
            return frozenset(self._store.paused)

    def pauses(self) -> list[Pause]:
        with self._lock:
            self._begin()
            return list(self._store.paused.values())

    def tidy(self, limit: int) -> int:
        with self._lock:
            now = self._begin()
            count = self._store.forget(limit, now)
            entities = self._store.entities
            gone = [key for key, entity in entities.items() if time_left(entity, now) <= -ENTITY_TTL][: limit - count]
            for key in gone:
                del entities[key]
            tidy_limits(self._limits, self._limits.all(), now)
            return count + len(gone)

    def audit(self, repair: bool) -> list[AuditFinding]:
        with self._lock:
            now = self._begin()
            return audit(self._store, repair, now)

    def holders(self) -> list[Holder]:
        return []

    def server_version(self) -> str:
        return "memory of this process"
