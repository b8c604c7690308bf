"""Changes of single jobs as data: what was read, what is to be stored, and what else is written in the same step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from jobboard.backends.etcd.edge_records import GRACE, Mark
from jobboard.backends.etcd.events import Event, event_of
from jobboard.backends.etcd.keys import Keys
from jobboard.backends.etcd.layout import Content, VersionedJob, content_of, kept_key
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import Compare, Op, Txn, after, delete, delete_range, nested, value_is
from jobboard.backends.rows import NewJob
from jobboard.backends.transition import Note, Resolve, Transition
from jobboard.events import EventKind
from jobboard.states import JobState


@dataclass(slots=True)
class Change:
    """A change of a job as it was read to ``new`` (None: the job is deleted), and what is told of it.

    :param is_fenced: only if the claim that was read holds in that moment.
    :param retention: for how many seconds a completed record is shown.
    :param lane: the lane that is to be looked at then.
    :param compares: what else must hold, and ``ops`` what else is written.
    :param posts: what is posted in the same step.
    :param resolve: how it stands as a parent then.
    """

    job: VersionedJob
    new: StoredJob | None
    told: list[Note]
    is_fenced: bool = False
    retention: float = 0.0
    lane: str | None = None
    compares: tuple[Compare, ...] = ()
    ops: tuple[Op, ...] = ()
    posts: tuple[NewJob, ...] = ()
    resolve: Resolve | None = None

    @property
    def events(self) -> list[Event]:
        """What subscribers are told; waiters are woken if the job's name may be claimed again."""
        row = self.new or self.job.row
        events = [event_of(row, note) for note in self.told]
        claim = self.job.row.claim
        if claim is not None and claim.is_counted and row.claim is None and events and events[-1].due is None:
            events[-1] = replace(events[-1], due=0.0)
        mark = self.mark
        if mark is not None and events:
            events[-1] = replace(events[-1], wakes_at=mark.due)
        return events

    @property
    def mark(self) -> Mark | None:
        """What the edges to its children have to say; the client that writes it works it off, unless it dies."""
        return None if self.resolve is None else Mark(self.resolve, self.told[-1].at + GRACE)

    @property
    def is_complete(self) -> bool:
        """Whether its record is to be forgotten some time."""
        return self.new is not None and self.new.state is JobState.COMPLETE

    def conditions(self, keys: Keys) -> list[Compare]:
        """Return what must hold in the moment of the change."""
        own = self.new.conditions if self.new is not None else ()
        held = self.job.still_held(keys) if self.is_fenced else ()
        return [*self.job.unchanged(keys), *own, *held, *self.compares]

    def contents(self, keys: Keys, lease: int) -> tuple[Content, Content]:
        """Return the keys of the job before and after.

        :param lease: that of a completed record.
        """
        return content_of(keys, self.job.row), content_of(keys, self.new, lease) | kept_key(keys, self.new, lease)

    def more_ops(self, keys: Keys) -> list[Op]:
        """Return what is written beside the keys of the job."""
        mark = self.mark
        return [*self.ops, *(() if mark is None else mark.ops(keys)), *self._forgotten(keys)]

    def _forgotten(self, keys: Keys) -> list[Op]:
        """Delete the steps and signals of a job that is deleted; its edges, if it has any, go after that."""
        uuid = self.job.row.uuid
        if self.new is not None:
            return []
        ops = [delete_range(prefix, after(prefix)) for prefix in (keys.steps_of(uuid), keys.signals_of(uuid))]
        return ops if self.job.row.may_have_edges else [*ops, delete(keys.kept_of(uuid))]

    def apart(self, keys: Keys) -> list[Op]:
        """Let a job that is deleted give back the key that it kept, unless another job has it by now."""
        row = self.job.row
        if self.new is not None or row.key is None or row.key_until is None:
            return []
        place = keys.key(row.name, row.key)
        return [nested(Txn([*self.job.unchanged(keys), value_is(place, row.order)], [delete(place)]))]


def change_of(job: VersionedJob, row: StoredJob, transition: Transition[Any], *, is_fenced: bool = False) -> Change:
    """Return the change that a transition asks for; it has changed the job as callers see it to ``row``."""
    retention = max(transition.retention, row.keeps_key_for(row.last_modified))
    new = job.row.after(row, transition, retention)
    is_gone = any(note.kind is EventKind.PURGED for note in transition.told)
    lane = next((following.lane for following in transition.follow), None)
    change = Change(job, None if is_gone else new, list(transition.told), is_fenced, retention, lane)
    change.posts, change.resolve = transition.posts, transition.resolve
    return change
