"""Jobs of an APScheduler 3, put into a job store by APScheduler itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytz
from apscheduler.jobstores.base import BaseJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

FUNCTION = f"{__name__}:report"
#: A full second, so that no store rounds it.
SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
BERLIN = ZoneInfo("Europe/Berlin")


def report(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("an import runs nothing")


class Thing:
    """No plain data."""


class Still(BackgroundScheduler):
    """Runs nothing, also not at its end."""

    def _process_jobs(self) -> None:
        return None


@contextmanager
def filled(store: BaseJobStore) -> Iterator[BackgroundScheduler]:
    """Return a scheduler whose jobs are in the store, and which runs none of them."""
    scheduler = Still(jobstores={"default": store}, timezone=BERLIN)
    scheduler.start(paused=True)
    try:
        yield scheduler
    finally:
        scheduler.shutdown()


def add_all(scheduler: BackgroundScheduler) -> None:
    """Add a job of each kind."""
    add = scheduler.add_job
    add(report, "date", run_date=SOON, id="date")
    add(report, "date", run_date=SOON - timedelta(days=9), id="overdue", misfire_grace_time=None)
    start = SOON - timedelta(days=400)
    add(report, "interval", hours=1, minutes=30, start_date=start, end_date=SOON + timedelta(days=9), id="interval",
        kwargs={"to": ["a", {"b": 1.5}], "at": SOON, "raw": b"\0"}, coalesce=False, max_instances=3)  # fmt: skip
    add(report, "cron", hour=7, minute="*/15", day_of_week="mon-fri", id="cron", jitter=30, misfire_grace_time=3600)
    add(
        report,
        "cron",
        day="last",
        month="jan-mar,dec",
        hour="1,3",
        timezone=pytz.timezone("America/New_York"),
        id="pytz",
    )
    add(report, "cron", day="3rd fri,5", second="5/20", id="position", timezone="UTC", executor="pool")
    add(report, CronTrigger.from_crontab("*/5 8-18/2 * * *", timezone=pytz.utc), id="crontab", args=[1, "two"])
    add(report, "calendarinterval", months=2, hour=9, minute=30, start_date=date(2026, 1, 3), id="calendar")
    add(report, OrTrigger([CronTrigger(hour=3, timezone=BERLIN), CronTrigger(minute=7, timezone=BERLIN)]), id="or")
    add(report, AndTrigger([CronTrigger(day=13, timezone=BERLIN), CronTrigger(day_of_week="fri", timezone=BERLIN)],
                           jitter=5), id="and")  # fmt: skip
    add(report, OrTrigger([DateTrigger(SOON), IntervalTrigger(hours=5, start_date=start)]), id="or interval")
    add(report, "interval", minutes=5, id="paused", next_run_time=None)
    add(report, "interval", days=1, id="moved", next_run_time=SOON + timedelta(minutes=7))
    # What can't become a schedule.
    add(report, "cron", week="*/2", id="no week")
    add(report, "interval", hours=1, args=[Thing()], id="no thing")
    add(report, "interval", hours=1, kwargs={"naive": datetime(2026, 1, 1)}, id="no naive")
    add(report, OrTrigger([DateTrigger(SOON), CronTrigger(hour=1, end_date=SOON, timezone="UTC")]), id="no end")
    add(print, "interval", hours=1, id="no name")


#: The ids of those that can't become a schedule, with a part of the reason.
REFUSED = {
    "no week": "week has no equivalent",
    "no thing": f"it holds {__name__}.Thing, which is no state of APScheduler's own",
    "no naive": "details.naive can't be stored",
    "no end": "a part of its combined trigger has its own end",
    "no name": "--map builtins:print=NAME",
}
