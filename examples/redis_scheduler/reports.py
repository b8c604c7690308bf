"""The handlers of the conductors."""

import os
import time

import redis

from jobboard import Broken, Handlers, RunningJob

handlers = Handlers()
store = redis.Redis.from_url(os.environ["JOBBOARD_URI"], decode_responses=True)


@handlers.handler
def report(job: RunningJob) -> str:
    """Write the report of one fire time; a second run of the same job writes it again, and not another one."""
    if job.fire_time is None:
        raise Broken("only a schedule posts reports")
    time.sleep(float(os.environ.get("REPORT_TAKES", "0.1")))
    period = job.fire_time.isoformat()
    store.hset("reports", period, job.uuid)
    return period
