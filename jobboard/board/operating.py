"""The operators' side: release, trash and restore, pause, audit; and who takes part."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import Any

from jobboard import telemetry
from jobboard.backends.base import Backend
from jobboard.backends.edge_rows import SignalOutcome
from jobboard.backends.errors import after_a_change
from jobboard.backends.findings import AuditFinding
from jobboard.backends.reasons import by_whom, released, to_priority
from jobboard.backends.rows import EntityRow, Pause, TrashOutcome, Verdict, is_refusal
from jobboard.board.books import Books
from jobboard.board.handles import JobHandles
from jobboard.board.limits import Limits
from jobboard.client import BackendClient
from jobboard.client.waiting_cycles import WaitingCycles, told
from jobboard.errors import AlreadyPosted, ClaimLost, NotFound, UnclaimableJob
from jobboard.job import Job, JobOrUuid
from jobboard.participants import Entity
from jobboard.states import LIVE, JobPriority, JobState
from jobboard.text import in_one_line
from jobboard.types import Priority, Seconds
from jobboard.validation import MAX_SECONDS, check_delay, check_moment, check_operator, check_text, check_uuid, moment

logger = logging.getLogger("jobboard.board")

#: What stores are told of a participant that stays for ever; not all of them know infinity.
_FOR_EVER = 2 * MAX_SECONDS


class Operating:
    """The operators' side of a board.

    ``job`` is a handle or a uuid. ``by`` is the operator, and ``reason`` a text that says why: the job's history and
    the events tell both.
    """

    _client: BackendClient
    _backend: Backend
    _handles: JobHandles
    _books: Books

    def signal(self, job: JobOrUuid, name: str, value: Any = None, *, by: str | None = None) -> bool:
        """Send a signal to a live job, whose handler waits for it, or will. Atomic, durable and idempotent.

        A job that waits for it can be claimed at once. It is kept until the job is forgotten; of two of one name the
        first one stays.

        :param name: as :meth:`wait_for` of a durable handler names it; ``value``: plain data that it returns.
        :returns: False if it was sent before.
        :raises NotFound: the job has ended, or there is none.
        :raises InvalidPosting: the value can't be stored.
        """
        uuid, signal = self._handles.uuid_of(job), check_text("name", name)
        data, who = self._client.encode("value", value), check_operator(by, None)[0]
        outcome, repeated = self._client.call_until_certain(self._backend.steps.signal, uuid, signal, data, who)
        if telemetry.is_on():
            is_sent = outcome is SignalOutcome.REPEATED and repeated
            telemetry.emit("signalled", self._client.name, signal, "done" if is_sent else outcome.value)
        if outcome is SignalOutcome.MISSING:
            raise NotFound(f"no job {uuid} is waiting or claimed on board {self._client.name!r}")
        return outcome is SignalOutcome.DONE or repeated

    def release(self, job: JobOrUuid, *, by: str | None = None, reason: str | None = None) -> None:
        """End the present claim of a job, of any owner; the job can be claimed at once. Atomic.

        :raises ClaimLost: the job is not claimed, or its claim ended meanwhile.
        :raises NotFound: there is no such job.
        """
        uuid = self._handles.uuid_of(job)
        text = released(*check_operator(by, reason))
        # The claim that was seen is the one to end: a repeat must not end a later one.
        row = self._handles.reader.row(uuid)
        if row.state is not JobState.CLAIMED:
            raise ClaimLost(f"job {uuid} is {row.state}; there is no claim to break", state=row.state)
        verdict, repeated = self._client.call_until_certain(self._backend.jobs.release, uuid, row.token, text)
        if is_refusal(verdict, repeated):
            raise ClaimLost(f"the claim of {row.owner!r} on job {uuid} ended before it could be broken")

    def run_now(self, job: JobOrUuid, *, by: str | None = None, reason: str | None = None) -> bool:
        """Let a delayed job be claimable at once, ahead of its time; its attempts stay as they are. Atomic.

        :returns: False if it is not delayed; nothing was changed then.
        :raises NotFound: it is not on the board.
        """
        uuid = self._handles.uuid_of(job)
        said = check_operator(by, reason)
        (verdict,), repeated = self._client.call_until_certain(self._backend.jobs.run_now, [uuid], *said)
        if verdict is Verdict.LOST:
            raise NotFound(f"no job {uuid} is on board {self._client.name!r}")
        return verdict is Verdict.DONE or repeated

    def reprioritize(
        self,
        job: JobOrUuid,
        priority: Priority,
        who: str | None = None,
        *,
        by: str | None = None,
        reason: str | None = None,
    ) -> bool:
        """Give a job that waits, delayed or not, another priority. Atomic.

        It stands as if it had been posted with that priority: among equals, by the time of posting. A job in somebody's
        hands is refused; once it is back on the board its priority can be changed.

        :param priority: a :class:`JobPriority`, or its name in any case.
        :param who: the former name of ``by``.
        :returns: False if it has that priority; nothing was changed then.
        :raises UnclaimableJob: it is claimed; nothing was changed.
        :raises NotFound: it is not on the board.
        """
        uuid = self._handles.uuid_of(job)
        wish = JobPriority.convert(priority)
        if who is not None:
            warnings.warn("who is now by: reprioritize(job, priority, by=...)", DeprecationWarning, stacklevel=2)
        operator, why = check_operator(who if by is None else by, reason)
        (verdict,), repeated = self._client.call_until_certain(
            self._backend.jobs.reprioritize, [uuid], int(wish), operator, to_priority(wish, why)
        )
        if verdict is Verdict.LOST:
            row = self._client.call(self._backend.jobs.read, [uuid])[0]
            if row is None or row.state not in LIVE:
                raise NotFound(f"no job {uuid} is on board {self._client.name!r}")
            raise UnclaimableJob(
                f"job {uuid} was claimed, so its priority stays; change it when the claim has ended",
                owner=row.owner,
                state=row.state,
            )
        return verdict is Verdict.DONE or repeated

    def trashed(self) -> Iterator[Job]:
        """Iterate over the trash in claim order; a job that can't be decoded has no details, but its ``raw`` bytes."""
        self._client.check_open()
        return self._handles.iterate(frozenset({JobState.TRASHED}), None)

    def restore(self, job: JobOrUuid, *, by: str | None = None, reason: str | None = None) -> Job:
        """Return a job from the trash to its old place, with no attempts used. Atomic.

        :returns: a handle on the job.
        :raises NotFound: it is not in the trash.
        :raises AlreadyPosted: another live job has its key by now.
        """
        uuid = self._handles.uuid_of(job)
        said = check_operator(by, reason)
        (outcome,), repeated = self._client.call_until_certain(self._backend.jobs.restore, [uuid], *said)
        if outcome is TrashOutcome.TAKEN:
            raise AlreadyPosted(f"job {uuid} stays in the trash: another live job of its name has its key by now")
        if is_refusal(outcome, repeated):
            raise NotFound(f"no job {uuid} in the trash of board {self._client.name!r}")
        with after_a_change():
            return self._handles.get(uuid)

    def purge(self, job: JobOrUuid, *, by: str | None = None, reason: str | None = None) -> None:
        """Delete a job from the trash for good. Atomic.

        :raises NotFound: it is not in the trash.
        """
        uuid = self._handles.uuid_of(job)
        said = check_operator(by, reason)
        (outcome,), repeated = self._client.call_until_certain(self._backend.jobs.purge, [uuid], *said)
        # An earlier try may have purged it. A job that is there was not in the trash, or has been posted anew since.
        if outcome is not TrashOutcome.DONE and not (repeated and self._client.is_gone(uuid)):
            raise NotFound(f"no job {uuid} in the trash of board {self._client.name!r}")

    def pause(
        self,
        name: str | None = None,
        *,
        lane: str | None = None,
        duration: Seconds | None = None,
        until: datetime | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Let no job of this name be claimed until :meth:`resume`; present claims go on. Atomic and idempotent.

        Of what is paused already the first pause stays, with its ``by`` and ``reason``. Of a paused lane all jobs
        that can be claimed are BLOCKED; its limit stays. A lane's pause can end by itself; of two, the one that ends
        later stays.

        :param name: None for jobs of any name.
        :param lane: a lane, or ``"PREFIX:*"``, to pause that alone; without a name.
        :param duration: of a lane: the seconds until its pause ends, by the store's clock.
        :param until: or the aware datetime at which it does; one that is past pauses nothing.
        :param by: the operator.
        :param reason: why; :meth:`pauses` and the event tell both.
        :raises ValueError: both ends are given, or one without a lane.
        """
        end, seconds = _end_of_pause(lane, until, duration)
        if lane is not None:
            self._limits_of(name)._pause(lane, end, seconds, by, reason)
            return
        known = None if name is None else check_text("name", name)
        self._client.call(self._backend.maintenance.pause, known, *check_operator(by, reason))

    def resume(
        self,
        name: str | None = None,
        *,
        lane: str | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """End exactly that pause. Atomic and idempotent.

        :param name: as it was given to :meth:`pause`.
        :param lane: likewise.
        :param by: the operator.
        :param reason: why; both are logged, and kept nowhere.
        """
        if lane is not None:
            self._limits_of(name)._resume(lane, by, reason)
            return
        known = None if name is None else check_text("name", name)
        said = by_whom(*check_operator(by, reason)) or "by nobody named"
        self._client.call(self._backend.maintenance.resume, known)
        what = "it is" if known is None else f"jobs named {known!r} are"
        logger.info("board %s: %s resumed, %s", self._client.name, what, in_one_line(said))

    def _limits_of(self, name: str | None) -> Limits:
        if name is not None:
            raise ValueError("give name or lane, not both")
        return self.limits

    @cached_property
    def limits(self) -> Limits:
        """How many jobs of a name or a lane may run, how often, and in which order."""
        return Limits(self._client, self._backend)

    def paused(self) -> set[str | None]:
        """Return the paused names; None among them means the whole board."""
        return set(self._client.call(self._backend.maintenance.paused))

    def pauses(self) -> list[Pause]:
        """Return what is paused, by whom, why and since when: the whole board first, then the names in their order.

        Each has ``name`` (None: the whole board), ``by``, ``reason`` and ``at``, a datetime; None for what nobody said.
        An older jobboard may not have written them down.
        """
        return sorted(self._client.call(self._backend.maintenance.pauses), key=lambda pause: pause.name or "")

    def audit(self, *, repair: bool = False) -> list[AuditFinding]:
        """Find records that contradict each other, and jobs that wait for each other.

        :param repair: also mend them, each atomically. Of jobs that wait for each other, somebody has to cancel one.
        :returns: one finding for each; [] if all is well.
        """
        found = self._client.call(self._backend.maintenance.audit, bool(repair))
        return [*found, *self._cycles()] if self._backend.capabilities.edges else found

    def _cycles(self) -> Iterator[AuditFinding]:
        for cycle in WaitingCycles(self._client).all():
            yield AuditFinding(cycle[0], f"it {told(cycle)}")

    def register_entity(self, entity: Entity) -> None:
        """Show a participant as alive for the seconds of its ``ttl``; register it again to stay. Idempotent.

        :raises InvalidPosting: the metadata can't be stored.
        """
        self._register(entity, None)

    def _register(self, entity: Entity, orders: str | None) -> bool:
        """Return False if the store knows already that there is no logbook ``orders``."""
        if not isinstance(entity, Entity):
            raise TypeError(f"entity must be an Entity, not {type(entity).__name__}")
        body = self._client.encode("metadata", entity.metadata)
        row = EntityRow(entity.kind, entity.name, body, min(entity.ttl, _FOR_EVER))
        return self._client.call(self._backend.entities.put, row, orders)

    def remove_entity(self, entity: Entity) -> None:
        """Remove a participant that stopped in good order. Idempotent."""
        self._client.call(self._backend.entities.remove, entity.kind, entity.name)

    def entities(self) -> list[Entity]:
        """Return every participant by kind and name, also those that were alive within a day."""
        rows = sorted(self._client.call(self._backend.entities.all), key=lambda row: (row.kind, row.name))
        return [entity for row in rows if (entity := _entity_of(row, self._client)) is not None]

    def destroy_book(self, uuid: str) -> None:
        """Delete a logbook with its entries, also one that belongs to a job. Atomic.

        :raises NotFound: there is none.
        """
        self._books.destroy(check_uuid(uuid))


def _end_of_pause(
    lane: str | None, until: datetime | None, duration: Seconds | None
) -> tuple[datetime | None, float | None]:
    if until is not None and duration is not None:
        raise ValueError("give until or duration, not both")
    if lane is None and (until is not None or duration is not None):
        raise ValueError("only the pause of a lane can end by itself; give lane, or no end")
    if until is not None:
        check_moment("until", until)
    return until, None if duration is None else check_delay(duration, "duration")


def _entity_of(row: EntityRow, client: BackendClient) -> Entity | None:
    """Return an entity, without what it tells of itself if that can't be decoded; None if it can't be one at all."""
    try:
        metadata = client.decode(row.body)
    except ValueError:
        metadata = None
    known = metadata if isinstance(metadata, dict) else {}
    ttl = math.inf if row.ttl >= _FOR_EVER else row.ttl
    try:
        last_seen = moment(row.last_seen)
        return Entity(row.kind, row.name, known, ttl, last_seen=last_seen, alive=row.expires_in > 0)
    except (TypeError, ValueError) as error:
        logger.warning("a participant is left out, since it can't be decoded: %s", in_one_line(str(error)))
        return None
