"""A job as its znode holds it, with what the znode's stat adds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.edge_rows import Outcome
from jobboard.backends.kv.codec import (
    MAX_ERROR,
    MAX_HISTORY_REASON,
    MAX_REASON,
)
from jobboard.backends.lifecycle import expire, expire_or_promote, is_due
from jobboard.backends.limits import UNLIMITED
from jobboard.backends.outcomes import outcome_of
from jobboard.backends.rows import JobRow, NewJob
from jobboard.backends.ties import ties_of as ties_of_posting
from jobboard.backends.transition import Note, Resolve, Transition, is_among
from jobboard.backends.zookeeper.codec import check_ids
from jobboard.backends.zookeeper.requests import Stat
from jobboard.events import HISTORY_LENGTH, EventKind, HistoryEntry
from jobboard.states import LIVE, JobState
from jobboard.text import shortened
from jobboard.validation import moment

logger = logging.getLogger("jobboard.zookeeper")

Answer = TypeVar("Answer")

#: Stands for the number of the very transaction that writes it, or for its moment; only the stat tells them.
THIS = -1

#: A posting's place in its batch takes this many bits; those above are the transaction that posted it.
PLACE_BITS = 10
#: The longest that stands in the job's own znode; what is longer gets one for itself.
MAX_INLINE = 1024

#: What is hidden at once is hidden also from clients whose clocks are behind by less than this, in seconds.
MAX_CLOCK_ERROR = 1.0

#: Whether the client of this presence still exists.
IsPresent = Callable[[str], bool]

#: A line of the history: kind, who, when (milliseconds), token, reason.
_Line = tuple[EventKind, str | None, int, int | None, str | None]

#: The fields that can be long; one in a znode of its own is that one's name.
LONG_FIELDS = ("body", "checkpoint", "progress", "result", "last_error")

_row_values = attrgetter(*(field.name for field in fields(JobRow)))

#: What a long field has that was not read, or does not exist.
NO_VALUE: dict[str, Any] = dict.fromkeys(LONG_FIELDS) | {"body": b""}

#: Stands for a long value that was not read while a transition decides whether it is replaced.
_UNREAD: Any = object()


class StoredJob(JobRow):
    """A job, and all else that its znode knows; callers get copies.

    ``version`` and ``zxid`` are the znode's when it was read; ``index`` is its place in its batch. ``presence`` is the
    client under which it is claimed. ``until`` is the moment from which a COMPLETE job is hidden. ``aliases`` are the
    uuids of the postings that replaced its content; the next write deletes ``forgotten_aliases``. ``blobs`` names
    the znodes of long fields. The next write deletes ``orphans``, and makes ``fresh``: blobs with their content, or
    with None if they were written ahead. ``told`` are the events of the next write. ``limit`` is that of its lane,
    ``followed_lane`` the one that must be looked at for its sake. ``was_blocked``: it waits for its lane, and
    ``had_key``: a key leads to it, as it is stored. ``key_until`` is the moment until which it keeps its key, also if
    it ends before. ``has_folders``: it has znodes of edges, steps or signals. The next write writes ``mark``, and posts
    ``posts``, and lets the jobs of the graph ``seal`` wait for it no longer.
    ``deletions`` is how many times jobs had been deleted when it was read, at least: a job that is deleted and posted
    again under the same uuid begins with the same versions, so that a version alone is no fence.
    """

    __slots__ = (
        "aliases",
        "blobs",
        "deletions",
        "followed_lane",
        "forgotten_aliases",
        "fresh",
        "had_key",
        "has_folders",
        "index",
        "key_until",
        "limit",
        "lines",
        "mark",
        "orphans",
        "posts",
        "presence",
        "seal",
        "told",
        "until",
        "version",
        "was_blocked",
        "zxid",
    )

    def __init__(self, uuid: str, name: str, priority: int, body: bytes) -> None:
        super().__init__(uuid, name, priority, 0, 0.0, body)
        self.version = self.zxid = self.index = self.deletions = 0
        self.presence: str | None = None
        self.until: float | None = None
        self.lines: list[_Line] = []
        self.aliases: list[str] = []
        self.blobs: dict[str, str] = {}
        self.limit = UNLIMITED
        self.key_until: float | None = None
        self.has_folders = False
        self._forget_changes()

    def _forget_changes(self) -> None:
        self.told: list[_Line] = []
        self.followed_lane: str | None = None
        self.was_blocked = self.had_key = False
        self.mark: Resolve | None = None
        self.posts: tuple[NewJob, ...] = ()
        self.seal: str | None = None
        self.orphans: list[str] = []
        self.fresh: list[tuple[str, bytes | None]] = []
        self.forgotten_aliases: list[str] = []

    def copy(self) -> JobRow:
        """Return what callers may have."""
        return JobRow(*_row_values(self))

    # -- conditions ------------------------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def claim_order(self) -> tuple[int, float, int]:
        """What jobs are sorted by as they are claimed, the best first."""
        return -self.priority, self.place, self.sequence

    @property
    def has_key(self) -> bool:
        """Whether its key leads to it: a job that has ended keeps it for a while if its posting says so."""
        if self.key is None or self.is_live:
            return self.key is not None
        return self.key_until is not None and outcome_of(self) is not Outcome.GONE

    @property
    def leaves_folders(self) -> bool:
        """Whether there are znodes of it beside its own that must go once it is forgotten."""
        return self.has_folders or (self.ties is not None and self.ties.has_children)

    def is_due(self, now: float, is_present: IsPresent) -> bool:
        """Whether time, or the end of a session, has made something else of the job than its record says."""
        return is_due(self, now) or self._is_left(is_present)

    def _is_left(self, is_present: IsPresent) -> bool:
        return self.state is JobState.CLAIMED and (self.presence is None or not is_present(self.presence))

    def is_hidden(self, now: float) -> bool:
        """Whether the job is only remembered, so that a repeated request is known."""
        return self.state is JobState.COMPLETE and (self.until is None or self.until <= now)

    def is_forgettable(self, now: float) -> bool:
        """Whether the job need not be remembered any more."""
        return self.state is JobState.COMPLETE and (self.until or 0.0) + RETRY_WINDOW <= now

    def has_note(self, kinds: tuple[EventKind, ...], token: int | None = None, who: str | None = None) -> bool:
        return is_among(self.lines, kinds, token, who)

    def history_entries(self) -> list[HistoryEntry]:
        return [HistoryEntry(kind, who, moment(at / 1000), token, why) for kind, who, at, token, why in self.lines]

    # -- changes ---------------------------------------------------------------------------------------------------

    def apply(self, change: Callable[[], Transition[Answer]], now: float) -> Transition[Answer]:
        """Carry out a transition of this job, and prepare what its next write needs beside the row."""
        was_complete = self.state is JobState.COMPLETE
        before = {field: getattr(self, field) or _UNREAD for field in self.blobs}
        for field, value in before.items():
            setattr(self, field, value)
        transition = change()
        for field, value in before.items():
            self._drop_blob_if_replaced(field, value)
        if transition.told:
            self._take_notes(transition)
            self.followed_lane = next((following.lane for following in transition.follow), self.followed_lane)
            self.mark, self.posts = transition.resolve or self.mark, (*self.posts, *transition.posts)
            self.reason = shortened(self.reason, MAX_REASON)
            self.last_error = shortened(self.last_error, MAX_ERROR)
            if self.state is not JobState.CLAIMED:
                self.presence = None
            if self.state is JobState.COMPLETE and not was_complete:
                self.until = now + transition.retention if transition.retention else now - MAX_CLOCK_ERROR
                if self.has_key:
                    self.until = max(self.until, self.key_until or 0.0)
        return transition

    def _drop_blob_if_replaced(self, field: str, before: Any) -> None:
        if getattr(self, field) is not before:
            self.orphans.append(self.blobs.pop(field))
        elif before is _UNREAD:
            setattr(self, field, NO_VALUE[field])

    def name_blobs(self, is_blob: list[Any]) -> None:
        """Take what was read into these long fields for the names of the znodes that hold their values."""
        for field, blob in zip(LONG_FIELDS, is_blob, strict=True):
            if blob:
                self.blobs[field] = getattr(self, field)
                setattr(self, field, NO_VALUE[field])
        check_ids(self.blobs.values())

    def _take_notes(self, transition: Transition[Any]) -> None:
        self.told += map(_line_of, transition.told)
        self.lines += map(_line_of, transition.history)
        del self.lines[:-HISTORY_LENGTH]

    def expire_or_promote(self, now: float, is_present: IsPresent) -> bool:
        """Bring the job up to this moment; returns whether that changed it."""
        if is_due(self, now):
            self.apply(lambda: expire_or_promote(self, now, self.limit), now)
        elif self._is_left(is_present):
            why = f"the session of '{self.owner}' ended"
            self.apply(lambda: expire(self, now, why, self.limit), now)
        else:
            return False
        return True

    def add_alias(self, uuid: str) -> None:
        """Take over the uuid of a posting that replaced the content."""
        self.aliases.append(uuid)
        if len(self.aliases) > HISTORY_LENGTH:
            self.forgotten_aliases.append(self.aliases.pop(0))

    def learn_write(self, stat: Stat, *, is_new: bool = False) -> None:
        """Learn what the write that has just succeeded, or was read, made of it."""
        if is_new:
            self.sequence = sequence_of(stat.mzxid, self.index)
            self.created_on = stat.mtime / 1000
        self.place = self.created_on if self.place == THIS else self.place
        self.version, self.zxid, self.last_modified = stat.version, stat.mzxid, stat.mtime / 1000
        self.token = stat.mzxid if self.token == THIS else self.token
        self.lines = [_with_stat(line, stat) for line in self.lines]
        self._forget_changes()
        self.was_blocked = self.state is JobState.BLOCKED and self.joined_lane is not None
        self.had_key = self.has_key


def _with_stat(line: _Line, stat: Stat) -> _Line:
    """Return a line of the history with the token and the moment of the transaction that wrote it."""
    kind, who, at, token, reason = line
    return kind, who, stat.mtime if at == THIS else at, stat.mzxid if token == THIS else token, reason


def size_of(job: StoredJob) -> int:
    """Return about how many bytes a job and its line of the log take in a transaction."""
    longs = (getattr(job, field) for field in LONG_FIELDS if field not in job.blobs)
    texts = (job.reason, *(line[4] for line in job.lines))
    return 800 + sum(len(value) for value in longs if value) + 2 * sum(len(text) for text in texts if text)


def sequence_of(zxid: int, index: int) -> int:
    """Return the sequence of a posting: the transaction that posted it, then its place in the batch."""
    return zxid << PLACE_BITS | index


def new_job(new: NewJob, index: int, now: float) -> StoredJob:
    """Return the job that a posting becomes.

    :param index: its place in its batch.
    """
    job = StoredJob(new.uuid, new.name, new.priority, new.body)
    job.key, job.index, job.ties = new.key, index, ties_of_posting(new, now)
    job.has_folders = bool(new.parents) or new.graph is not None
    return job


def _line_of(note: Note) -> _Line:
    """Return the line of a note, whose time is that of the write."""
    return (note.kind, note.who, THIS, note.token, shortened(note.reason, MAX_HISTORY_REASON))
