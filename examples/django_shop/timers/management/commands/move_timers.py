"""Moves the timers that still have something to do from the table to the board."""

import json
import uuid
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from timers.models import Timer
from timers.tasks import BY_TYPE

BATCH = 500
#: Of the uuids that rows get; never change it.
NAMESPACE = uuid.UUID("5b1bdbbe-6f6c-4c1c-9a0e-3f1f0f4f5d7a")


class Command(BaseCommand):
    help = "Move pending timers, and those whose lock has expired, to the board. Run it until it moves none."

    def handle(self, *args: Any, **options: Any) -> None:
        total = 0
        while moved := move_batch():
            total += moved
        left = Timer.objects.filter(status__in=["PENDING", "RUNNING"]).count()
        self.stdout.write(f"{total} timers moved, {left} left")


@transaction.atomic
def move_batch() -> int:
    """Move up to 500 timers, all or none: they are tasks if and only if their rows say MOVED."""
    is_free = Q(status="PENDING") | Q(status="RUNNING", locked_until__lt=Now())
    rows = Timer.objects.select_for_update(skip_locked=True).filter(is_free, task_type__in=BY_TYPE)
    batch = list(rows.order_by("id")[:BATCH])
    for row in batch:
        enqueue(row)
    Timer.objects.filter(id__in=[row.id for row in batch]).update(status="MOVED")
    return len(batch)


def enqueue(row: Timer) -> None:
    """Enqueue a timer; the same one again is the same task, by its key and by the uuid of its row."""
    task = BY_TYPE[row.task_type].using(
        key=row.business_key,
        if_exists="keep",
        uuid=str(uuid.uuid5(NAMESPACE, f"t_task/{row.id}")),
        run_after=row.execute_at,
        priority=max(-100, min(row.priority, 100)),
        max_attempts=max(1, row.max_retries + 1 - row.retry_count),
    )
    task.enqueue(**json.loads(row.payload or "{}"))
