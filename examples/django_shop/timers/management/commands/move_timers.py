"""Moves the timers that still have something to do from the table to the board."""

import json
from typing import Any

from django.core.management.base import BaseCommand, OutputWrapper
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from timers.models import Timer
from timers.tasks import BY_TYPE

BATCH = 500


class Command(BaseCommand):
    help = "Move pending timers, and those whose lock has expired, to the board; those that it can't post it names."

    def handle(self, *args: Any, **options: Any) -> None:
        total, last = 0, 0
        while batch := move_batch(last, self.stderr):
            total, last = total + sum(row.status == "MOVED" for row in batch), batch[-1].id
        left = Timer.objects.filter(status__in=["PENDING", "RUNNING"]).count()
        self.stdout.write(f"{total} timers moved, {left} left")


@transaction.atomic
def move_batch(last: int, errors: OutputWrapper) -> list[Timer]:
    """Move up to 500 timers behind the last one, all or none: they are tasks if and only if their rows say MOVED."""
    is_free = Q(status="PENDING") | Q(status="RUNNING", locked_until__lt=Now())
    rows = Timer.objects.select_for_update(skip_locked=True).filter(is_free, task_type__in=BY_TYPE, id__gt=last)
    batch = list(rows.order_by("id")[:BATCH])
    for row in batch:
        try:
            enqueue(row)
        except (TypeError, ValueError) as error:  # Nothing was sent: no JSON, a list, a number of more than 64 bits.
            errors.write(f"timer {row.id} ({row.task_type} {row.business_key}) stays: {error}")
        else:
            row.status = "MOVED"
    Timer.objects.filter(id__in=[row.id for row in batch if row.status == "MOVED"]).update(status="MOVED")
    return batch


def enqueue(row: Timer) -> None:
    """Enqueue a timer, unless the program has set a newer one of its key."""
    task = BY_TYPE[row.task_type].using(
        key=row.business_key,
        if_exists="keep",
        run_after=row.execute_at,
        priority=max(-100, min(row.priority, 100)),
        max_attempts=max(1, row.max_retries + 1 - row.retry_count),
    )
    task.enqueue(**json.loads(row.payload or "{}"))
