"""The plain data that crosses the seam between the board and its stores. Times are seconds since the epoch.

Nobody changes what was handed over. What is made for every single job is not frozen all the same: that would make it
several times slower to make.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime

from jobboard.events import EventKind, HistoryEntry
from jobboard.states import JobState


class IfFailed(str, enum.Enum):
    """What becomes of a job one of whose parents fails: one that is in the trash, was cancelled, or purged."""

    WAIT = "wait"
    CANCEL = "cancel"
    RUN = "run"

    @classmethod
    def convert(cls, value: object) -> IfFailed:
        """Return what a caller has given by its name."""
        try:
            return cls(value)
        except ValueError:
            raise ValueError(f'if_failed must be "wait", "cancel" or "run", not {value!r}') from None


@dataclass(frozen=True, slots=True)
class Ties:
    """What a job has to do with others, and with moments. Most jobs have none at all (``JobRow.ties`` is None).

    :ivar lane: the lane whose limits it keeps.
    :ivar since: its place when it joined the lane, once it was admitted after a wait; None before.
    :ivar has_children: whether a job was ever posted that waits for it; its ends are resolved then.
    :ivar has_parents: whether it waits for a parent still.
    :ivar if_failed: what becomes of it if a parent fails.
    :ivar signal: the signal that it waits for; ``JobRow.run_at`` is the moment at which it stops to, if there is one.
    :ivar latest: the moment to which replacements can delay it at most.
    :ivar start_by: the moment at which it goes to the trash, unless it was claimed before.
    :ivar on_trashed: the posting that follows when it goes to the trash, as ``follow_ups.pack`` stores it.
    :ivar on_complete: the same for when it is consumed.
    """

    lane: str | None = None
    since: float | None = None
    has_children: bool = False
    has_parents: bool = False
    if_failed: IfFailed = IfFailed.WAIT
    signal: str | None = None
    latest: float | None = None
    start_by: float | None = None
    on_trashed: bytes | None = field(default=None, repr=False)
    on_complete: bytes | None = field(default=None, repr=False)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a parent or a signal; it has joined no lane then."""
        return self.has_parents or self.signal is not None


@dataclass(slots=True)
class JobRow:
    """All that a store knows of one job: its posting, and its record.

    ``token`` is that of the last claim (0 before the first), ``claim_id`` is set only while CLAIMED, and
    ``expires_at`` is None for a claim that never ends by time. ``sequence`` grows with every posting of a board.
    ``place`` is the moment at which the job became due: of the jobs of one priority, the one that became due first is
    claimed first, then the one that was posted first.
    """

    uuid: str
    name: str
    priority: int
    sequence: int
    created_on: float
    body: bytes = field(repr=False)
    key: str | None = None
    run_at: float | None = None
    max_attempts: int | None = None
    state: JobState = JobState.UNCLAIMED
    attempts: int = 0
    owner: str | None = None
    token: int = 0
    claim_id: str | None = None
    expires_at: float | None = None
    last_modified: float = 0.0
    last_error: str | None = None
    reason: str | None = None
    checkpoint: bytes | None = field(default=None, repr=False)
    progress: bytes | None = field(default=None, repr=False)
    result: bytes | None = field(default=None, repr=False)
    cancel_asked: bool = False
    history: tuple[HistoryEntry, ...] = ()
    place: float = 0.0
    ties: Ties | None = None

    @property
    def lane(self) -> str | None:
        """The lane whose limits it keeps."""
        return None if self.ties is None else self.ties.lane

    @property
    def joined_lane(self) -> str | None:
        """The lane that it waits for, or has a slot of; None while it waits for a parent or a signal."""
        ties = self.ties
        return None if ties is None or (ties.is_waiting and self.state is JobState.BLOCKED) else ties.lane

    @property
    def claimed_by(self) -> str | None:
        """The owner of the present claim; the ``owner`` of a completed job is its last."""
        return self.owner if self.state is JobState.CLAIMED else None

    @property
    def waited(self) -> float | None:
        """For how many seconds a claimed job could be claimed before its first attempt, by the store's clock.

        None after that. What a lane keeps back could not be claimed: more conductors would not let it start.
        """
        # What was posted to a board of layout 1 has no place.
        return max(0.0, self.last_modified - max(self.created_on, self.place)) if self.attempts == 1 else None

    def has_note(self, kinds: tuple[EventKind, ...], token: int | None = None, who: str | None = None) -> bool:
        """Whether the history knows of such a change: under this token, if given, and by this owner, if given."""
        return any(line.kind in kinds and is_by(token, who, line.token, line.who) for line in self.history)


def is_by(token: int | None, who: str | None, its_token: int | None, its_who: str | None) -> bool:
    """Whether a change was made under a token, if that is given, and by an owner, if that is given."""
    return token in (None, its_token) and who in (None, its_who)


class IfExists(str, enum.Enum):
    """What a posting wants when a live job of its name has its key already; or a schedule, if there is its id."""

    RAISE = "raise"
    KEEP = "keep"
    REPLACE = "replace"

    @classmethod
    def convert(cls, value: object) -> IfExists:
        """Return what a caller has given by its name."""
        if value == "raise":
            # Nearly always, and in a third of the time.
            return _RAISE
        try:
            return cls(value)
        except ValueError:
            raise ValueError(f'if_exists must be "raise", "keep" or "replace", not {value!r}') from None


_RAISE = IfExists.RAISE


@dataclass(slots=True)
class NewJob:
    """A posting on its way into a store. ``delay`` counts from the store's now; ``run_at`` is a moment; not both.

    :ivar parents: the uuids of the jobs that it waits for; of the same batch, or on the board.
    :ivar graph: the graph that it is a part of: it also waits until that is complete (:class:`EdgeStore`).
    :ivar key_for: for how many seconds from the post its key stays taken, also if the job ends before.
    :ivar max_delay: for how many seconds from the post replacements can delay it at most.
    """

    uuid: str
    name: str
    priority: int
    body: bytes = field(repr=False)
    key: str | None = None
    if_exists: IfExists = IfExists.RAISE
    run_at: float | None = None
    delay: float | None = None
    max_attempts: int | None = None
    ties: Ties | None = None
    parents: tuple[str, ...] = ()
    graph: str | None = None
    key_for: float | None = None
    max_delay: float | None = None


class PostOutcome(enum.Enum):
    """What became of a posting."""

    POSTED = "posted"
    SAME = "same"  # this uuid was posted before, and nothing was changed
    KEPT = "kept"  # the key is taken, and that job is returned
    REPLACED = "replaced"  # the key was taken by an unclaimed job, which has the new posting's content now
    TAKEN = "taken"  # the key is taken, and nothing of the batch was posted
    OTHER_LANE = "other lane"  # the job that a posting wants to replace has another lane; nothing was posted either
    NO_PARENT = "no parent"  # the board does not know a parent of it (``Posted.parent``), and nothing was posted

    @property
    def refuses_batch(self) -> bool:
        """Whether nothing of its batch is posted."""
        return self in _REFUSED


_REFUSED = (PostOutcome.TAKEN, PostOutcome.OTHER_LANE, PostOutcome.NO_PARENT)


@dataclass(slots=True)
class Posted:
    """The outcome, and the job that is now the one: the new one, or the one that was there."""

    outcome: PostOutcome
    row: JobRow
    #: The parent that the board does not know, or the graph that was given up, if that is the outcome.
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A wish to own: by whom, under which claim id (made before the first try), for how many seconds (``math.inf``)."""

    who: str
    claim_id: str
    expiry: float


@dataclass(slots=True)
class Fence:
    """The proof of a claim: without all three being the store's present ones, nothing is changed."""

    uuid: str
    who: str
    token: int


@dataclass(frozen=True, slots=True)
class Extension:
    """``progress``, if not None, is kept in the record."""

    fence: Fence
    expiry: float
    progress: bytes | None = field(default=None, repr=False)


@dataclass(slots=True)
class Consumption:
    """``retention``: for how many seconds the completed record stays readable.

    ``posts``: what is posted in the same step; if that is refused, the claim goes on (``Refused``). ``seal``: the graph
    that is complete with it.
    """

    fence: Fence
    result: bytes | None = field(repr=False)
    retention: float
    posts: tuple[NewJob, ...] = ()
    seal: str | None = None


@dataclass(frozen=True, slots=True)
class Abandonment:
    """Back on the board: at once, after ``delay`` seconds of the store's clock, or at ``run_at``.

    ``counted``: False gives the attempt back (the job asked to run again, or its conductor had to stop).
    ``signal``: it is BLOCKED until that is sent, or until the moment that ``delay`` or ``run_at`` gives, if one does;
    if it was sent already, the job is back at once.
    """

    fence: Fence
    delay: float = 0.0
    run_at: float | None = None
    reason: str | None = None
    error: str | None = None
    counted: bool = True
    signal: str | None = None


@dataclass(frozen=True, slots=True)
class Trashing:
    """Into the trash; without ``fence`` an operator's, which any claim gives way to. The history names ``by``.

    ``posts``: what is posted in the same step, as for a :class:`Consumption`.
    """

    uuid: str
    fence: Fence | None
    reason: str | None = None
    error: str | None = None
    by: str | None = None
    posts: tuple[NewJob, ...] = ()


class Verdict(enum.Enum):
    """What the store says to somebody who claims to hold a job."""

    DONE = "done"
    CANCEL_ASKED = "cancel asked"  # done, and somebody wants this job to end
    REPEATED = "repeated"  # not held any more, because this very change was made under this very token before
    LOST = "lost"  # not held, and nothing was changed


@dataclass(frozen=True, slots=True)
class Lost:
    """A LOST that says how the job stands now: its state, and who has claimed it, if anybody."""

    state: JobState
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """What was to be posted with the end of a claim is refused, so that nothing was changed: what became of it."""

    posts: tuple[Posted, ...]


#: What the store says to somebody who extends, checkpoints or ends a claim.
ClaimAnswer = Verdict | Lost | Refused


def verdict_of(answer: ClaimAnswer) -> Verdict:
    """Return the verdict alone."""
    return answer if isinstance(answer, Verdict) else Verdict.LOST


class CancelOutcome(enum.Enum):
    """What became of a wish to cancel."""

    CANCELLED = "cancelled"  # it is off the board
    ASKED = "asked"  # it is claimed, and its owner is told
    REPEATED = "repeated"  # it was cancelled before
    MISSING = "missing"  # it is not on the board, and was not cancelled


class TrashOutcome(enum.Enum):
    """What became of a wish to bring a job back from the trash, or to be rid of it."""

    DONE = "done"
    REPEATED = "repeated"  # it is on the board, restored before
    TAKEN = "taken"  # another live job has its key
    MISSING = "missing"  # it is not in the trash


_NOTHING_DONE = (Verdict.LOST, CancelOutcome.MISSING, TrashOutcome.MISSING)
_DONE_BEFORE = (Verdict.REPEATED, CancelOutcome.REPEATED, TrashOutcome.REPEATED)


def is_refusal(answer: Verdict | CancelOutcome | TrashOutcome, repeated: bool) -> bool:
    """Whether a request has changed nothing: a repeat that finds the change done before has done it itself."""
    return answer in _NOTHING_DONE or (answer in _DONE_BEFORE and not repeated)


@dataclass(frozen=True, slots=True)
class Pause:
    """A paused name (None: the whole board); by whom, why and since when, as far as anybody has said or written it.

    ``at`` is a moment for people, as in a history: what an older jobboard has paused may have none.
    """

    name: str | None
    by: str | None = None
    reason: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs in claim order, and where the next page begins; ``cursor`` None is the end."""

    rows: list[JobRow]
    cursor: object | None

    def without(self, names: frozenset[str | None]) -> Page:
        """Return this page without the jobs of these names."""
        return Page([row for row in self.rows if row.name not in names], self.cursor) if names else self


@dataclass(frozen=True, slots=True)
class EntityRow:
    """A participant as stored; ``expires_in`` (seconds; negative once gone) and ``last_seen`` come from the store."""

    kind: str
    name: str
    body: bytes = field(repr=False)
    ttl: float
    last_seen: float = 0.0
    expires_in: float = 0.0
