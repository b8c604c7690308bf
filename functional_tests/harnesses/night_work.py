"""Handlers of a bad night, and the same once they are mended."""

from __future__ import annotations

import threading

from jobboard import Handlers, RunningJob

broken, mended = Handlers(), Handlers()


@broken.handler("resize")
def resize(job: RunningJob) -> None:
    if job.details.get("hang"):
        scale()


def scale() -> None:
    """Wait for what never comes."""
    threading.Event().wait()


@broken.handler("invoice", max_attempts=1)
def invoice(job: RunningJob) -> None:
    raise LookupError("no customer 17")


for name in ("resize", "invoice", "report"):
    mended.add(name, lambda job: None)
