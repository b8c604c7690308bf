"""Durable handlers of the conductor processes in the functional tests; each effect is a line outside of the board."""

from __future__ import annotations

import os
import time
import uuid

from jobboard import AsyncRunningJob, Backoff, Handlers, Posting, RunningJob, Then

handlers = Handlers(max_attempts=100, backoff=Backoff(first=0.01, factor=1, jitter=0))

STEPS, PHOTOS = 5, 6


def effect(diary: str, job: str, name: str) -> str:
    """Append one line, which O_APPEND keeps whole; return what only this call has."""
    nonce = uuid.uuid4().hex
    descriptor = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{job} {name} {nonce}\n".encode())
    finally:
        os.close(descriptor)
    time.sleep(0.01)
    return nonce


@handlers.handler("pipeline")
def pipeline(job: RunningJob) -> Then:
    diary = job.details["diary"]
    results = [job.step(f"step {number}", effect, diary, job.uuid, f"step {number}") for number in range(STEPS)]
    job.sleep(0.02)
    value = job.wait_for("go", timeout=600)
    results.append(job.step("last", effect, diary, job.uuid, "last"))
    return Then([Posting("next", {"of": job.uuid})], {"results": results, "value": value})


@handlers.handler("album")
def album(job: RunningJob) -> list[int]:
    photos = [Posting("photo", {"number": number}) for number in range(PHOTOS)]
    found = [parent.result for parent in job.wait_for_jobs("photos", photos)]
    return found + [parent.result for parent in job.wait_for_jobs("cover", [Posting("photo", {"number": sum(found)})])]


@handlers.handler("photo")
def photo(job: RunningJob) -> int:
    time.sleep(0.005)
    number: int = job.details["number"]
    return number


@handlers.handler("pipeline later")
async def pipeline_later(job: AsyncRunningJob) -> Then:
    diary = job.details["diary"]
    results = [await job.step(f"step {number}", effect, diary, job.uuid, f"step {number}") for number in range(STEPS)]
    await job.sleep(0.02)
    value = await job.wait_for("go", timeout=600)
    results.append(await job.step("last", effect, diary, job.uuid, "last"))
    return Then([Posting("next", {"of": job.uuid})], {"results": results, "value": value})
