"""Claiming jobs that were chosen, and renewing claims."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from jobboard.backends import lifecycle
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.kv.jobs import JobChanges
from jobboard.backends.rows import ClaimAnswer, ClaimRequest, Extension, Fence, JobRow, Verdict
from jobboard.backends.zookeeper.codec import NameRules
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import Conflict
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.name_guards import NameGuards
from jobboard.backends.zookeeper.read_modify_write import HeldJobs, ReadModifyWrite
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.stored_job import THIS, StoredJob
from jobboard.backends.zookeeper.transactions import Transactions
from jobboard.backends.zookeeper.upkeep import Upkeep
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

MAX_RETRIES = 200


class Claimer:
    """Claims jobs in one transaction, all or none; its number is their token.

    :param seen: the jobs that a page has shown last, which are claimed without another read if nothing has changed.
    """

    def __init__(
        self,
        layout: Layout,
        clock: ServerClock,
        sessions: Sessions,
        transactions: Transactions,
        jobs: ReadModifyWrite,
        held: HeldJobs,
        guards: NameGuards,
        upkeep: Upkeep,
        seen: dict[str, StoredJob],
    ) -> None:
        self._layout, self._clock, self._sessions, self._transactions = layout, clock, sessions, transactions
        self._jobs, self._held, self._guards, self._seen = jobs, held, guards, seen
        self._upkeep = upkeep

    def claim(self, uuid: str, request: ClaimRequest) -> JobRow | None:
        # The transaction makes sure that the job, the pauses and the limits are still as this client saw them last.
        job, rules, has_looked = self._seen.pop(uuid, None), self._guards.known_rules(), False
        is_known_as_it_was = job is not None
        for _ in range(MAX_RETRIES):
            if job is None:
                (job,) = self._jobs.current([uuid])
            if job is None or job.is_hidden(self._clock.now()):
                return None
            if job.state is JobState.UNCLAIMED and not has_looked and not self._may_claim(job, rules):
                rules, has_looked = self._look(job), True
            if not self._may_claim(job, rules):
                if not is_known_as_it_was:
                    return job.copy()
                # Its state is the reason, and it may have another one since.
                job, is_known_as_it_was = None, False
                continue
            try:
                self.claim_all([job], request, rules)
                return job.copy()
            except Conflict as conflict:
                has_looked = not conflict.path.startswith(self._layout.jobs)
                if has_looked:
                    rules = self._look(job)
                job, is_known_as_it_was = None, False
        raise BoardUnavailable("others change this job faster than this client can")

    def _may_claim(self, job: StoredJob, rules: NameRules) -> bool:
        return lifecycle.is_claimable(job, rules.paused) and (
            job.name not in rules.running or self._guards.has_room(job.name)
        )

    def _look(self, job: StoredJob) -> NameRules:
        """Return what claims ask for; if this job's name is limited, catch up and end the claims that are over."""
        rules = self._guards.read_rules()
        if job.name not in rules.running:
            return rules
        self._guards.catch_up([job.name])
        self._upkeep.expire_and_promote()
        return self._guards.known_rules()

    def claim_all(
        self, jobs: Sequence[StoredJob], request: ClaimRequest, rules: NameRules, ready: int | None = None
    ) -> None:
        """Claim these jobs, all or none; raises :class:`Conflict` if something has changed.

        :param rules: the pauses and limits; a change of them since then keeps the claim from happening.
        :param ready: the version of what counts the jobs that became claimable, if nothing may have been added.
        """
        presence = self._sessions.mine()
        now, slack = self._clock.now(), self._clock.slack
        transaction = self._transactions.begin()
        self._transactions.check_not_deleted(transaction, jobs)
        transaction.check(self._layout.session(presence))
        transaction.check(self._layout.paused, rules.version)
        limited = self._guards.add(transaction, {job.name for job in jobs}, rules)
        if ready is not None:
            transaction.check(self._layout.ready, ready)
        for job in jobs:
            job.apply(partial(lifecycle.claim, job, request, now, THIS, slack=slack), now)
            job.presence = presence
            self._transactions.write_job(transaction, job)
        try:
            self._transactions.commit(transaction)
        except Conflict as conflict:
            if conflict.path == self._layout.session(presence):
                # It was deleted by hand, or the session has ended and kazoo does not know yet.
                self._sessions.give_up()
            if conflict.path.startswith(self._layout.names):
                self._guards.forget(limited)
            raise
        self._guards.learn_own(limited)
        for job in jobs:
            self._held.put(job.uuid, job)


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
