"""Moves the timers of a table in MariaDB to the board, and prints what came of it: ``URI``."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

from harnesses.django_transactions import settings_of

_TABLE = """
    CREATE TABLE t_task (
        id BIGINT PRIMARY KEY, task_type VARCHAR(50) NOT NULL, business_key VARCHAR(100) NOT NULL, payload TEXT,
        execute_at DATETIME(6) NOT NULL, status VARCHAR(10) NOT NULL, priority INT NOT NULL DEFAULT 0,
        locked_by VARCHAR(100), locked_until DATETIME(6), retry_count INT NOT NULL DEFAULT 0,
        max_retries INT NOT NULL DEFAULT 3, last_error TEXT, created_at DATETIME(6) NOT NULL, finished_at DATETIME(6),
        UNIQUE (task_type, business_key)
    )
"""
#: id, type, key, payload, seconds until it is due, status, seconds that its lock lasts, retries so far
_ROWS = [
    (1, "REMIND", "order/1", '{"order": 1}', 3600, "PENDING", None, 0),
    (2, "REMIND", "order/2", '{"order": 2, "text": "late"}', -60, "PENDING", None, 2),
    (3, "REMIND", "order/3", '{"order": 3}', -60, "RUNNING", -10, 1),
    (4, "REMIND", "order/4", '{"order": 4}', -60, "RUNNING", 3600, 1),
    (5, "REMIND", "order/5", '{"order": 5}', -60, "DONE", None, 0),
    (6, "REMIND", "order/6", '{"order": 6}', -60, "CANCELLED", None, 0),
    (7, "FORGET", "order/7", "{}", -60, "PENDING", None, 0),
    (8, "REMIND", "order/8", "[8]", -60, "PENDING", None, 0),
    (9, "REMIND", "order/9", '{"order": 18446744073709551617}', -60, "PENDING", None, 0),
    (10, "REMIND", "order/10", "order 10", -60, "PENDING", None, 0),
    (11, "REMIND", "order/11", '{"order": 11}', -60, "PENDING", None, 0),
]


def main(uri: str) -> None:
    from django.conf import settings

    apps = ["django_tasks", "jobboard.contrib.django", "timers"]
    backend = {"BACKEND": "jobboard.contrib.django.JobBoardBackend", "OPTIONS": {"name": "timers"}}
    database = {**settings_of(uri, "PyMySQL"), "OPTIONS": {"init_command": "SET time_zone = '+00:00'"}}
    settings.configure(DATABASES={"default": database}, USE_TZ=True, INSTALLED_APPS=apps, TASKS={"default": backend})
    import django

    django.setup()
    sys.stdout.write(json.dumps(_move()))


def _move() -> dict[str, Any]:
    from django.core.management import call_command
    from django.db import connection
    from timers import program
    from timers.management.commands import move_timers
    from timers.models import Timer

    from jobboard.contrib.django import board as jobboard_of_settings

    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS t_task")
        cursor.execute(_TABLE)
    begin = datetime.now(UTC)

    def moment(seconds: float | None) -> datetime | None:
        return None if seconds is None else begin + timedelta(seconds=seconds)

    def write_rows() -> None:
        for number, kind, key, payload, due, status, lock, retries in _ROWS:
            Timer.objects.create(
                id=number, task_type=kind, business_key=key, payload=payload, execute_at=moment(due), status=status,
                locked_until=moment(lock), retry_count=retries, priority=number,
            )  # fmt: skip

    write_rows()
    call_command("migrate", verbosity=0)
    board = jobboard_of_settings()

    def found() -> dict[str, Any]:
        jobs = {str(job.key): job for job in board.iterjobs()}
        return {
            "rows": [Timer.objects.get(id=row[0]).status for row in _ROWS],
            "jobs": {key: [str(job.state), job.max_attempts, _shown(job.details, begin)] for key, job in jobs.items()},
        }

    told: dict[str, Any] = {}
    enqueue, begun = move_timers.enqueue, list[int]()

    def fail_at_the_second(row: Timer) -> None:
        begun.append(row.id)
        if len(begun) == 2:
            raise RuntimeError("the process ends here")
        enqueue(row)

    move_timers.enqueue = fail_at_the_second
    with suppress(RuntimeError):
        call_command("move_timers")
    told["interrupted"] = found()
    move_timers.enqueue = enqueue
    counts, refused = StringIO(), StringIO()
    call_command("move_timers", stdout=counts, stderr=refused)
    told |= {"moved": found(), "counts": counts.getvalue().strip(), "refused": refused.getvalue().splitlines()}
    # As after the table was restored from a backup.
    Timer.objects.filter(status="MOVED").update(status="PENDING")
    call_command("move_timers", stdout=sys.stderr)
    told["again"] = found()

    [done] = (job for job in board.iterjobs() if job.key == "order/2")
    board.claim(done, "worker")
    board.consume(done, "worker")
    # As by an old loop, or by an old program that has not ended yet.
    Timer.objects.filter(id=2).update(status="PENDING", payload='{"order": 2, "text": "once more"}')
    call_command("move_timers", stdout=sys.stderr)
    told["written again"] = [
        [Timer.objects.get(id=2).status, (job.details or {})["kwargs"]]
        for job in board.iterjobs()
        if job.key == done.key
    ]

    board.cancel_by_key(done.name, prefix="order/")
    Timer.objects.all().delete()
    write_rows()
    program.set_reminder(1, begin + timedelta(hours=2))
    for order in (2, 3):
        program.cancel_reminder(order)
    call_command("move_timers", stdout=sys.stderr)
    told["taken over"] = {"rows": found()["rows"][:3], "jobs": found()["jobs"]}
    board.close()
    return told


def _shown(details: dict[str, Any], begin: datetime) -> list[Any]:
    due = round((details["run_after"] - begin).total_seconds(), 3)
    return [details["task"], details["kwargs"], details["priority"], due]


if __name__ == "__main__":
    main(sys.argv[1])
