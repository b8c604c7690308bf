"""Renewing claims, which needs no server if they went with their session."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.kv.jobs import JobChanges
from jobboard.backends.rows import ClaimAnswer, Extension, Fence, Verdict
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.read_modify_write import HeldJobs
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.stored_job import StoredJob


class Renewals:
    """Tells of claims that are lost without a connection; renews the others."""

    def __init__(
        self, connection: Connection, sessions: Sessions, changes: JobChanges[StoredJob], held: HeldJobs
    ) -> None:
        self._connection, self._sessions, self._changes, self._held = connection, sessions, changes, held

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        """Needs no connection if all claims went with their session, so it begins by itself."""
        self._connection.check_open()
        lost = [self._went_with_its_session(renewal.fence) for renewal in renewals]
        if all(lost):
            return [Verdict.LOST] * len(renewals)
        self._sessions.begin()
        kept = [renewal for renewal, is_lost in zip(renewals, lost, strict=True) if not is_lost]
        verdicts = iter(self._changes.extend(kept))
        return [Verdict.LOST if is_lost else next(verdicts) for is_lost in lost]

    def _went_with_its_session(self, fence: Fence) -> bool:
        """Whether a claim of this client ended with its session, which needs no server to tell."""
        job = self._held.get(fence.uuid)
        if job is None or job.presence is None or job.token != fence.token:
            return False
        return self._sessions.has_given_up(job.presence)
