"""A small model of a board without time: what a job does in one process, in a dict. Backends are compared with it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from jobboard.states import LIVE, JobPriority, JobState
from jobboard.types import IfFailedName


@dataclass
class ModelJob:
    """What the model knows of one job; ``number`` says when it was posted, ``due`` when it became due, or is to.

    ``since``: where it waits again if its ``lane`` withdraws it, unless that is where it stands; ``is_new``: whether it
    joins the lane just now; ``created``: when it was posted.
    ``waits``: whether any of its parents can still hold it back; ``waited_again``: how often that began anew; ``rank``:
    where it stands among those that became due in the same step.
    """

    uuid: str
    number: int
    name: str
    key: str | None
    priority: JobPriority
    content: int
    max_attempts: int | None
    state: JobState
    due: tuple[bool, int]
    created: tuple[bool, int] = (False, 0)
    attempts: int = 0
    owner: str | None = None
    token: int = 0
    checkpoint: int | None = None
    result: int | None = None
    cancel_asked: bool = False
    lane: str | None = None
    since: tuple[bool, int] | None = None
    is_new: bool = False
    parents: set[str] = field(default_factory=set)
    if_failed: IfFailedName = "wait"
    waits: bool = False
    waited_again: int = 0
    rank: int = 0

    @property
    def place(self) -> tuple[int, tuple[bool, int], int, int]:
        return -self.priority, self.due, self.rank, self.number

    @property
    def can_wait_again(self) -> bool:
        """Whether it waits for a parent that is restored, although it was let go: nobody has ever claimed it."""
        return self.if_failed == "run" and not self.waits and self.token == 0

    def end_claim(self, state: JobState) -> None:
        self.state = state
        self.cancel_asked = False
        if state is not JobState.COMPLETE:
            self.owner = None


@dataclass(frozen=True)
class ModelLimit:
    """How many jobs of a lane may hold a slot; strict: one that waits for a retry keeps its own."""

    running: float = math.inf
    is_strict: bool = False


@dataclass
class Model:
    """All jobs by uuid, and the paused names with who paused each, and why.

    ``limits`` are those of lanes and prefixes, by their patterns; ``paused_lanes`` are patterns; ``limits_of_names``
    say how many jobs of a name may be claimed; ``names`` are those of all jobs that ever were, by their uuids;
    ``settled`` were posted after others, or have waited for them, until this step; ``admitted`` for their lanes;
    ``shared`` are the moments at which several jobs became due in one step.
    """

    jobs: dict[str, ModelJob] = field(default_factory=dict)
    paused: dict[str | None, tuple[str | None, str | None]] = field(default_factory=dict)
    limits: dict[str, ModelLimit] = field(default_factory=dict)
    paused_lanes: set[str] = field(default_factory=set)
    limits_of_names: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    purged: set[str] = field(default_factory=set)
    settled: list[ModelJob] = field(default_factory=list)
    admitted: list[ModelJob] = field(default_factory=list)
    shared: set[tuple[bool, int]] = field(default_factory=set)
    posted: int = 0
    moments: int = 0

    def in_order(self, states: Collection[JobState] = LIVE) -> list[ModelJob]:
        return sorted((job for job in self.jobs.values() if job.state in states), key=lambda job: job.place)

    def with_key(self, name: str, key: str) -> ModelJob | None:
        return next((job for job in self.in_order() if (job.name, job.key) == (name, key)), None)

    def post(
        self,
        uuid: str,
        name: str,
        key: str | None,
        priority: JobPriority,
        content: int,
        most: int | None,
        delayed: bool,
        lane: str | None = None,
        parents: Collection[str] = (),
        if_failed: IfFailedName = "wait",
    ) -> None:
        self.posted += 1
        job = ModelJob(uuid, self.posted, name, key, priority, content, most, JobState.UNCLAIMED, (False, 0), lane=lane)
        job.parents, job.if_failed, job.waits = set(parents), if_failed, bool(parents)
        job.created = self.due()
        self.jobs[uuid], self.names[uuid] = job, name
        self.join(job, delayed)
        if parents:
            self.settled.append(job)

    def due(self, delayed: bool = False) -> tuple[bool, int]:
        """Return what is later than all before it; that of a delay, which is long, is later than all moments."""
        self.moments += 1
        return delayed, self.moments

    def join(self, job: ModelJob, delayed: bool = False, now: tuple[bool, int] | None = None) -> None:
        """Let a job wait for its delay, its parents or its lane, or be claimable, at the place of this moment."""
        waiting = JobState.BLOCKED if job.waits or job.lane is not None else JobState.UNCLAIMED
        job.state, job.due = JobState.DELAYED if delayed else waiting, now or self.due(delayed)
        job.rank = 0
        if not delayed:
            job.since, job.is_new = None, job.lane is not None and not job.waits

    def follow_up(self) -> None:
        """Do what follows from a step: first for children, then for lanes."""
        self.settle()
        self.look_at_lanes()

    # -- parents ---------------------------------------------------------------------------------------------------

    def state_of(self, uuid: str) -> JobState | None:
        """Return how a job stands; None if it was cancelled or purged."""
        job = self.jobs.get(uuid)
        return None if job is None else job.state

    def parents(self) -> list[ModelJob]:
        """Return the jobs that hold others back, or would if they were restored."""
        waiting = [job for job in self.jobs.values() if job.waits or job.can_wait_again]
        held = {parent for job in waiting for parent in job.parents}
        return [job for job in self.jobs.values() if job.uuid in held and job.state is not JobState.COMPLETE]

    def settle(self) -> None:
        """Let each job that waits for parents become what follows from how they stand, and then its children."""
        now = self.due()
        while any(self._settle(job, now) for job in list(self.jobs.values()) if job.waits):
            pass

    def _settle(self, job: ModelJob, now: tuple[bool, int]) -> bool:
        """Return whether a job waits for its parents no longer."""
        states = {self.state_of(parent) for parent in job.parents}
        is_lost = None in states or (job.if_failed == "cancel" and JobState.TRASHED in states)
        if is_lost and job.if_failed != "run":
            self._lose(job)
        elif states & LIVE or (job.if_failed == "wait" and JobState.TRASHED in states):
            return False
        else:
            job.waits = False
            if job.state is JobState.BLOCKED:
                self.join(job, now=now)
                self.settled.append(job)
        return True

    def _lose(self, job: ModelJob) -> None:
        """Take a job off the board, or set it aside; one that is set aside already stays so, and waits no longer."""
        job.waits = False
        if job.state is not JobState.TRASHED and job.if_failed == "cancel":
            del self.jobs[job.uuid]
        else:
            job.state = JobState.TRASHED

    def take_order(self, shown: Sequence[str]) -> None:
        """Take over in which order children went on, and jobs were admitted beside them: in one step none is promised.

        :param shown: the uuids of all jobs.
        """
        if self.settled:
            now = self.due()
            self.shared.add(now)
            for job in self.settled + self.admitted:
                job.due = job.due if job.due[0] else now
        self.settled, self.admitted = [], []
        for rank, uuid in enumerate(shown):
            if uuid in self.jobs:
                self.jobs[uuid].rank = rank if self.jobs[uuid].due in self.shared else 0

    def is_above(self, ancestor: str, uuid: str) -> bool:
        """Whether a job is another one, or that one waits for it, or for what waits for it."""
        job = self.jobs.get(uuid)
        waits = job is not None and job.waits and any(self.is_above(ancestor, parent) for parent in job.parents)
        return waits or ancestor == uuid

    def purge(self, job: ModelJob) -> None:
        """Forget a job: it is no parent of jobs to come."""
        del self.jobs[job.uuid]
        self.purged.add(job.uuid)

    # -- lanes -----------------------------------------------------------------------------------------------------

    def limit_of(self, lane: str) -> ModelLimit:
        prefix = lane[: lane.rindex(":")] + ":*"
        limit = self.limits.get(lane) or self.limits.get(prefix) or ModelLimit()
        return ModelLimit(0, limit.is_strict) if self.paused_lanes & {lane, prefix} else limit

    def look_at_lanes(self) -> None:
        """Let each lane have as many claimable jobs as its limit allows: the best ones that wait for it."""
        for lane in sorted({job.lane for job in self.jobs.values() if job.lane is not None}):
            now = self.due()
            while self._moves_one(lane, now):
                pass
        for job in self.jobs.values():
            job.is_new = False

    def _moves_one(self, lane: str, now: tuple[bool, int]) -> bool:
        limit = self.limit_of(lane)
        claimable, blocked = self.of_lane(lane, JobState.UNCLAIMED), self.of_lane(lane, JobState.BLOCKED)
        free = limit.running - len(claimable) - len(self.of_lane(lane, JobState.CLAIMED))
        if limit.is_strict:
            free -= sum(job.token > 0 for job in self.of_lane(lane, JobState.DELAYED))
        yielding = [job for job in claimable if not (limit.is_strict and job.token)]
        if free < 0 and claimable:
            self.withdraw(claimable[-1])
        elif free > 0 and blocked:
            self.admit(blocked[0], now)
        elif blocked and yielding and blocked[0].priority > yielding[-1].priority:
            self.withdraw(yielding[-1])
            self.admit(blocked[0], now)
        else:
            return False
        return True

    def of_lane(self, lane: str, state: JobState) -> list[ModelJob]:
        """Return the jobs of a lane: what waits for parents has not joined it."""
        return [job for job in self.in_order({state}) if job.lane == lane and not job.waits]

    def withdraw(self, job: ModelJob) -> None:
        """Let a claimable job wait for its lane where it waited before."""
        job.state, job.due = JobState.BLOCKED, job.since or job.due

    def admit(self, job: ModelJob, now: tuple[bool, int]) -> None:
        """Let a job that waits for its lane be claimable: at once where it stands, or later behind all others."""
        job.state = JobState.UNCLAIMED
        if not job.is_new:
            job.since, job.due, job.rank = job.since or job.due, now, 0
            self.admitted.append(job)

    # -- claims ----------------------------------------------------------------------------------------------------

    def is_open(self, name: str) -> bool:
        """Whether jobs of a name may be claimed: nobody has paused it, and it has room."""
        claimed = sum(job.name == name for job in self.in_order({JobState.CLAIMED}))
        is_full = claimed >= self.limits_of_names.get(name, math.inf)
        return not is_full and self.paused.keys().isdisjoint({None, name})

    def is_claimable(self, job: ModelJob) -> bool:
        return job.state is JobState.UNCLAIMED and self.is_open(job.name)

    def claimable(self, names: Collection[str] | None, limit: int) -> list[ModelJob]:
        """Return the jobs that a claim of these names gets, as far as its names have room for them."""
        room = {
            name: most - sum(job.name == name for job in self.in_order({JobState.CLAIMED}))
            for name, most in self.limits_of_names.items()
        }
        found: list[ModelJob] = []
        for job in self.in_order():
            wanted = self.is_claimable(job) and (names is None or job.name in names)
            if wanted and room.get(job.name, limit) > 0 and len(found) < limit:
                room[job.name] = room.get(job.name, limit) - 1
                found.append(job)
        return found

    def can_exchange(self, lane: str, names: Collection[str] | None) -> bool:
        """Whether a job of a lane that nobody of these names can claim has a slot that another one could have."""
        return not self.limit_of(lane).is_strict and bool(self._stuck(lane, names) and self._waiting(lane, names))

    def exchange(self, lane: str, names: Collection[str] | None, shown: Mapping[str, JobState]) -> int:
        """Take over what became of a lane by an exchange: as many as gave their slots back were admitted, the best.

        :param shown: the states of its jobs.
        """
        stuck, waiting, now = self._stuck(lane, names), self._waiting(lane, names), self.due()
        withdrawn = [job for job in stuck if shown[job.uuid] is JobState.BLOCKED]
        admitted = [job for job in waiting if shown[job.uuid] is not JobState.BLOCKED]
        assert len(withdrawn) == len(admitted)
        assert admitted == waiting[: len(admitted)]
        for job in withdrawn:
            self.withdraw(job)
        for job in admitted:
            self.admit(job, now)
        return len(admitted)

    def _stuck(self, lane: str, names: Collection[str] | None) -> list[ModelJob]:
        return [job for job in self.of_lane(lane, JobState.UNCLAIMED) if not self._is_wanted(job, names)]

    def _waiting(self, lane: str, names: Collection[str] | None) -> list[ModelJob]:
        return [job for job in self.of_lane(lane, JobState.BLOCKED) if self._is_wanted(job, names)]

    def _is_wanted(self, job: ModelJob, names: Collection[str] | None) -> bool:
        return self.is_open(job.name) and (names is None or job.name in names)

    def claim(self, job: ModelJob, who: str, token: int) -> None:
        assert token > job.token, "a later claim needs a larger token"
        job.state, job.owner, job.token = JobState.CLAIMED, who, token
        job.attempts += 1

    def holds(self, uuid: str, who: str, token: int) -> ModelJob | None:
        """Return the job if this claim of it holds."""
        job = self.jobs.get(uuid)
        if job is None or job.state is not JobState.CLAIMED or (job.owner, job.token) != (who, token):
            return None
        return job

    def abandon(self, job: ModelJob, *, counted: bool, delayed: bool = False) -> None:
        """End a claim by abandon."""
        if job.cancel_asked:
            del self.jobs[job.uuid]
        elif counted and job.max_attempts is not None and job.attempts >= job.max_attempts:
            job.end_claim(JobState.TRASHED)
        else:
            job.attempts -= 0 if counted else 1
            job.end_claim(JobState.UNCLAIMED)
            if delayed:
                self.join(job, delayed)

    def release(self, job: ModelJob) -> None:
        if job.cancel_asked:
            del self.jobs[job.uuid]
        else:
            job.end_claim(JobState.UNCLAIMED)

    def run_now(self, job: ModelJob) -> None:
        """End a delay; a job of a strict lane that waited for its retry has kept its slot."""
        is_kept = job.lane is not None and self.limit_of(job.lane).is_strict and job.token > 0
        if is_kept:
            job.state, job.due, job.since = JobState.UNCLAIMED, self.due(), job.created
        else:
            self.join(job)

    def restore(self, job: ModelJob) -> None:
        job.end_claim(JobState.UNCLAIMED)
        job.attempts = 0
        if job.waits and job.if_failed == "cancel":
            # A parent in the trash would cancel it at once.
            job.if_failed = "wait"
        self.join(job)
        for child in self.jobs.values():
            if job.uuid in child.parents and child.can_wait_again:
                child.waits, child.waited_again = True, child.waited_again + 1
                if child.state in (JobState.UNCLAIMED, JobState.BLOCKED):
                    child.state, child.since = JobState.BLOCKED, None
