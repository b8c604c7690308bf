"""A small model of a board without time: what a job does in one process, in a dict. Backends are compared with it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from jobboard.states import LIVE, JobPriority, JobState


@dataclass
class ModelJob:
    """What the model knows of one job; ``number`` says when it was posted, ``due`` when it became due, or is to.

    ``lane``: at most one job of a lane is UNCLAIMED or CLAIMED; the others of it that are due are BLOCKED.
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
    attempts: int = 0
    owner: str | None = None
    token: int = 0
    checkpoint: int | None = None
    result: int | None = None
    cancel_asked: bool = False
    lane: str | None = None

    @property
    def place(self) -> tuple[int, tuple[bool, int], int]:
        return -self.priority, self.due, self.number

    def end_claim(self, state: JobState) -> None:
        self.state = state
        self.cancel_asked = False
        if state is not JobState.COMPLETE:
            self.owner = None


@dataclass
class Model:
    """All jobs by uuid, and the paused names with who paused each, and why."""

    jobs: dict[str, ModelJob] = field(default_factory=dict)
    paused: dict[str | None, tuple[str | None, str | None]] = field(default_factory=dict)
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
    ) -> None:
        self.posted += 1
        job = ModelJob(uuid, self.posted, name, key, priority, content, most, JobState.UNCLAIMED, (False, 0), lane=lane)
        self.jobs[uuid] = job
        self.join(job, delayed)

    def due(self, delayed: bool = False) -> tuple[bool, int]:
        """Return what is later than all before it; that of a delay, which is long, is later than all moments."""
        self.moments += 1
        return delayed, self.moments

    def join(self, job: ModelJob, delayed: bool = False) -> None:
        """Let a job wait for its delay, or for its lane, or be claimable, at the place of this moment."""
        waiting = JobState.UNCLAIMED if job.lane is None else JobState.BLOCKED
        job.state, job.due = JobState.DELAYED if delayed else waiting, self.due(delayed)

    def admit(self) -> None:
        """Give each lane's slot that is free to the first job that waits for it, at the place of this moment."""
        held = {job.lane for job in self.in_order({JobState.UNCLAIMED, JobState.CLAIMED})}
        for job in self.in_order({JobState.BLOCKED}):
            if job.lane not in held:
                held.add(job.lane)
                job.state, job.due = JobState.UNCLAIMED, self.due()

    def is_claimable(self, job: ModelJob) -> bool:
        return job.state is JobState.UNCLAIMED and self.paused.keys().isdisjoint({None, job.name})

    def claimable(self, names: Collection[str] | None, limit: int) -> list[ModelJob]:
        jobs = [job for job in self.in_order() if names is None or job.name in names]
        return [job for job in jobs if self.is_claimable(job)][:limit]

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

    def restore(self, job: ModelJob) -> None:
        job.end_claim(JobState.UNCLAIMED)
        job.attempts = 0
        self.join(job)
