"""The keys and values that stand for a job, and the operations that lead from one state of it to the next."""

from __future__ import annotations

from dataclasses import dataclass

from jobboard.backends.etcd.keys import Keys, LanePart, parts_of_order
from jobboard.backends.etcd.stored import StoredJob, hint_of
from jobboard.backends.etcd.txn import Compare, Op, delete, modified_at, present, put
from jobboard.backends.kv.codec import TEXT, WHOLE, items_of, pack
from jobboard.states import JobState

#: Key -> its value, and the lease that it is under (0: none).
Content = dict[bytes, tuple[bytes, int]]


@dataclass(slots=True)
class VersionedJob:
    """A job as it was read: the row, and the revisions of its keys; 0 if there is no such key.

    ``is_held``: whether the lease of its claim, if it has one, existed.
    """

    row: StoredJob
    order: bytes
    record: bytes
    record_revision: int
    claim_revision: int = 0
    is_held: bool = True

    def unchanged(self, keys: Keys) -> list[Compare]:
        """Hold if the job was not changed since; every change of a claimed job writes its claim."""
        # No comparison of the token: a claim that was made anew was also written anew, in another revision.
        claim = modified_at(keys.claim(self.order), self.claim_revision)
        if self.row.claim is not None:
            return [claim]
        record = modified_at(self.record, self.record_revision)
        # What is BLOCKED can't be claimed before its record is written.
        return [record, claim] if self.row.is_live and self.row.state is not JobState.BLOCKED else [record]

    def still_held(self, keys: Keys) -> tuple[Compare, ...]:
        """Hold if the lease of its claim exists."""
        return () if self.row.claim is None else under(keys, self.row.claim.lease)


def is_hidden(job: VersionedJob, now: float) -> bool:
    """Whether this is a completed record that is not shown any more."""
    row = job.row
    return row.state is JobState.COMPLETE and row.hidden_from is not None and row.hidden_from <= now


def under(keys: Keys, lease: int) -> tuple[Compare, ...]:
    """Hold if the lease of a claim exists; empty if the claim has none."""
    return (present(keys.session(lease)),) if lease else ()


def content_of(keys: Keys, row: StoredJob | None, lease: int = 0) -> Content:
    """Return every key that stands for a job, and its value.

    :param lease: that of a completed record, which deletes it in the end.
    """
    if row is None:
        return {}
    order = row.order
    if row.state is JobState.COMPLETE:
        content = {keys.done + order: (row.packed(), lease)}
        return content | {keys.job(uuid): (order, lease) for uuid in (row.uuid, *row.aliases)}
    content = {keys.job(uuid): (order, 0) for uuid in (row.uuid, *row.aliases)}
    if row.state is JobState.TRASHED:
        queue = keys.queue(row.name, row.state) + order
        return content | {keys.trashed + order: (row.packed(), 0), queue: (b"", 0)}
    content[keys.live + order] = (row.packed(), 0)
    if row.key is not None:
        content[keys.key(row.name, row.key)] = (order, 0)
    return content | _place_of(keys, row, order) | _lane_of(keys, row, order)


def kept_key(keys: Keys, row: StoredJob | None, lease: int) -> Content:
    """Return the key that a job which has just ended keeps until some moment; another job may have it after that."""
    if row is None or row.key is None or row.keeps_key_for(row.last_modified) <= 0 or row.is_live:
        return {}
    return {keys.key(row.name, row.key): (row.order, lease)}


def _place_of(keys: Keys, row: StoredJob, order: bytes) -> Content:
    """Return the keys of a live job in queues, claims and timers."""
    hint = (hint_of(row).packed(), 0)
    if row.claim is None:
        place = {keys.queue(row.name, row.state) + order: hint}
        if row.state is JobState.UNCLAIMED:
            place[keys.ready(order)] = hint
    else:
        place = {keys.claim(order): (row.claim.packed(), 0)}
        if row.claim.is_counted:
            place[keys.running_of(row.name) + order] = (b"", 0)
    if row.due is not None:
        place[keys.timer(row.due, order)] = hint
    return place


def _lane_of(keys: Keys, row: StoredJob, order: bytes) -> Content:
    """Return the key of a live job in its lane."""
    lane = row.joined_lane
    if lane is None:
        return {}
    part = part_of(row)
    return {keys.in_lane(lane, part, order): (member_of(row) if part in _MOVABLE else b"", 0)}


#: The jobs of a lane that a look may admit or withdraw.
_MOVABLE = (LanePart.BLOCKED, LanePart.CLAIMABLE)


def waits_for_lane(row: StoredJob) -> bool:
    """Whether a job is BLOCKED until its lane has a slot for it; it may be for its parents or a signal."""
    return row.state is JobState.BLOCKED and row.joined_lane is not None


def part_of(row: StoredJob) -> LanePart:
    """Return what a live job is to the slots of its lane."""
    if row.claim is not None:
        return LanePart.CLAIMED
    if row.state is JobState.DELAYED:
        return LanePart.RETRYING if row.token else LanePart.DELAYED
    return LanePart.BLOCKED if row.state is JobState.BLOCKED else LanePart.CLAIMABLE


def member_of(row: StoredJob) -> bytes:
    """Return what a lane stores of a job that a look may move."""
    return pack([row.uuid, row.name, row.token])


def member_at(order: bytes, value: bytes) -> StoredJob:
    """Return a job of a lane as far as its key there tells."""
    priority, place, sequence = parts_of_order(order)
    try:
        (uuid, name, token), _ = items_of(value, (TEXT, TEXT, WHOLE))
    except ValueError:
        # The look that moves it reads the job itself.
        uuid, name, token = "", "", 0
    return StoredJob(uuid, name, priority, sequence, 0.0, b"", token=token, place=place)


def steps_between(old: Content, new: Content) -> list[Op]:
    """Return the operations that lead from one content to the other."""
    gone = [delete(key) for key in old if key not in new]
    return gone + [put(key, value, lease) for key, (value, lease) in new.items() if old.get(key) != (value, lease)]
