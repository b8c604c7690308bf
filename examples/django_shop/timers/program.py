"""How the program sets and cancels timers while the table may still have a row for them."""

from datetime import datetime

from django.db import transaction

from jobboard.contrib.django import board
from timers.models import Timer
from timers.tasks import remind


@transaction.atomic
def set_reminder(order: int, moment: datetime) -> None:
    take_over("REMIND", f"order/{order}")
    remind.using(key=f"order/{order}", if_exists="replace", run_after=moment).enqueue(order)


@transaction.atomic
def cancel_reminder(order: int) -> None:
    take_over("REMIND", f"order/{order}")
    transaction.on_commit(lambda: board().cancel_by_key("timers.tasks.remind", key=f"order/{order}"))


def take_over(task_type: str, key: str) -> None:
    """Let no loop run this row any more, nor the move post it; the transaction locks it, or waits for who has."""
    row = Timer.objects.filter(task_type=task_type, business_key=key, status__in=["PENDING", "RUNNING"])
    row.update(status="MOVED")
