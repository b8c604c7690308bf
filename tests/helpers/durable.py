"""Durable handlers that worker processes can import; each effect is a line of the file ``diary`` of the details."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from jobboard import AsyncRunningJob, Backoff, Handlers, Posting, RunningJob, Then

handlers = Handlers(max_attempts=3, backoff=Backoff(first=0.01, factor=1, jitter=0))


def note(job: RunningJob | AsyncRunningJob, line: str) -> int:
    """Write a line, and return how many there are."""
    diary = Path(job.details["diary"])
    with diary.open("a") as file:
        file.write(f"{line}\n")
    return len(diary.read_text().splitlines())


@handlers.handler("order")
def order(job: RunningJob) -> Then:
    charged = job.step("charge", note, job, "charge")
    job.sleep(0.05)
    by = job.wait_for("approved", timeout=600)
    try:
        job.wait_for("hurry", timeout=0.05)
    except TimeoutError:
        job.step("no hurry", note, job, "no hurry")
    return Then([Posting("ship", details={"order": job.uuid})], {"charged": charged, "by": by})


@handlers.handler("order later")
async def order_later(job: AsyncRunningJob) -> Then:
    async def charge() -> int:
        return note(job, "charge")

    charged = await job.step("charge", charge)
    await job.sleep(0.05)
    by = await job.wait_for("approved", timeout=600)
    try:
        await job.wait_for("hurry", timeout=0.05)
    except TimeoutError:
        await job.step("no hurry", note, job, "no hurry")
    return Then([Posting("ship", details={"order": job.uuid})], {"charged": charged, "by": by})


@handlers.handler("step and complete")
def step_and_complete(job: RunningJob) -> None:
    job.step("charge", note, job, "charge")
    job.complete("done", post=[Posting("ship")])


@handlers.handler("store what cannot be stored")
def store_what_cannot_be_stored(job: RunningJob) -> None:
    job.step("look up", bytes, 600_000)


@handlers.handler("die before the save")
def die_before_the_save(job: RunningJob) -> Any:
    def charge() -> int:
        count = note(job, "charge")
        if count == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    return job.step("charge", charge)


@handlers.handler("die after the save")
def die_after_the_save(job: RunningJob) -> Any:
    count = job.step("charge", note, job, "charge")
    if note(job, "run") == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return count


@handlers.handler("part")
def part(job: RunningJob) -> int:
    number: int = job.details["number"]
    return number * number


@handlers.handler("sum")
def sum_of_parts(job: RunningJob) -> int:
    note(job, "run")
    parts = [Posting("part", {"number": number}) for number in range(job.step("count", note, job, "count") + 2)]
    squares = [parent.result for parent in job.wait_for_jobs("parts", parts)]
    job.sleep(0.05)
    more = job.wait_for_jobs("more", [Posting("part", {"number": sum(squares)})])
    return sum(squares) + sum(parent.result for parent in more)


@handlers.handler("sum later")
async def sum_later(job: AsyncRunningJob) -> int:
    note(job, "run")
    parts = [Posting("part", {"number": number}) for number in range(4)]
    return sum([parent.result for parent in await job.wait_for_jobs("parts", parts)])


@handlers.handler("nested")
def nested(job: RunningJob) -> Any:
    (child,) = job.wait_for_jobs("child", [Posting("sum", {"diary": job.details["diary"]})])
    return child.result
