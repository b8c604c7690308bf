"""What the conductors run."""

from uuid import UUID, uuid5  # glue

from celery_shop import shop
from celery_shop.shop import Order, Sales
from jobboard import Backoff, Handlers, JobState, Posting, RunAgain, RunningJob  # glue

orders, mails, reports = Handlers(backoff=Backoff(first=2, most=300)), Handlers(), Handlers()  # glue


@orders.handler
def charge(job: RunningJob, order: Order) -> None:
    shop.charge(order)
    send_mail.post(job.board, order)  # glue


@mails.handler
def send_mail(order: Order) -> None:
    shop.send_mail(order)


@orders.handler
def call_courier(order: Order) -> RunAgain | None:
    wait = shop.call_courier(order)
    return RunAgain(after=wait) if wait else None  # glue


@reports.handler
def close_day(job: RunningJob) -> RunAgain | None:
    day = str(job.created_on.date())
    sums = [Posting.of(sum_region, Sales(day, name), uuid=uuid5(UUID(job.uuid), name)) for name in shop.REGIONS]  # glue
    if any(part.record.state is not JobState.COMPLETE for part in job.board.post_many(sums)):  # glue
        return RunAgain(after=1)  # glue
    shop.send_report(day)
    return None


@reports.handler
def sum_region(sales: Sales) -> None:
    shop.sum_up(sales)
