"""An order that nobody pays in time is cancelled: a timer that moves along with its order."""

from datetime import datetime

from django.db import connection, transaction
from django.utils import timezone

from jobboard import AlreadyPosted, Handlers, Posting, RunningJob
from jobboard.contrib.django import board
from shop.models import Order

handlers = Handlers()


def pay_until(number: int, moment: datetime) -> None:
    with transaction.atomic():
        order = Order.objects.select_for_update().get(number=number)
        order.pay_until = moment
        order.save()
        timer = {"key": f"order/{number}", "run_at": moment, "if_exists": "replace", "connection": connection}
        try:
            board().post("cancel_unpaid", {"number": number}, **timer)
        except AlreadyPosted:
            pass  # Its handler has begun, and waits for this order: it reads the new moment.


@handlers.handler
def cancel_unpaid(job: RunningJob) -> None:
    with transaction.atomic():
        order = Order.objects.select_for_update().get(number=job.details["number"])
        again = []
        if order.state == "open" and order.pay_until > timezone.now():
            again = [Posting("cancel_unpaid", job.details, key=job.key, run_at=order.pay_until)]
        elif order.state == "open":
            order.state = "cancelled"
            order.save()
        job.complete(post=again, connection=connection)
