"""The handlers of a soak: each way in which an attempt ends."""

from __future__ import annotations

from jobboard import Backoff, Handlers, RunAgain, RunningJob

from .diary import written_down

handlers = Handlers()
QUICK = Backoff(first=0.05, factor=1, jitter=0)


@handlers.handler("succeed")
def succeed(job: RunningJob) -> dict[str, object]:
    with written_down(job):
        return {"n": job.details["n"], "text": "x" * 500}


@handlers.handler("fail", max_attempts=3, backoff=QUICK)
def fail(job: RunningJob) -> None:
    with written_down(job):
        if job.attempts < 3:
            raise ValueError("not yet")


@handlers.handler("resume", max_attempts=10, backoff=QUICK)
def resume(job: RunningJob) -> None:
    with written_down(job):
        done = list(job.checkpoint or [])
        if len(done) < 3:
            job.checkpoint_state([*done, len(done)])
            raise RunAgain(after=0.05)


@handlers.handler("tick")
def tick(job: RunningJob) -> None:
    with written_down(job):
        pass
