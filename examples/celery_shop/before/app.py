"""The broker, the queues and the beat."""

import os  # glue

from celery import Celery  # glue
from celery.schedules import crontab  # glue

app = Celery("shop", broker=os.environ["SHOP_BROKER"], include=["celery_shop.before.tasks"])  # glue
app.conf.timezone = "Europe/Berlin"  # glue
app.conf.task_acks_late = app.conf.task_reject_on_worker_lost = True  # glue
app.conf.worker_prefetch_multiplier = 1  # glue
app.conf.task_routes = {  # glue
    "celery_shop.before.tasks.send_mail": {"queue": "mails"},  # glue
    "celery_shop.before.tasks.close_day": {"queue": "reports"},  # glue
    "celery_shop.before.tasks.sum_region": {"queue": "reports"},  # glue
    "celery_shop.before.tasks.send_report": {"queue": "reports"},  # glue
}  # glue
app.conf.beat_schedule = {  # glue
    "close-day": {"task": "celery_shop.before.tasks.close_day", "schedule": crontab(hour=3, minute=0)},  # glue
}  # glue
