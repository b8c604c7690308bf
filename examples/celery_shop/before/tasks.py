"""What the workers run."""

import os  # glue
import time

import redis  # glue

from celery_shop import shop
from celery_shop.before.app import app  # glue
from celery_shop.shop import Order, Sales

counters = redis.Redis.from_url(os.environ["SHOP_BROKER"])  # glue


@app.task(autoretry_for=(OSError,), retry_backoff=2, retry_backoff_max=300, max_retries=4)  # glue
def charge(id, cents):
    shop.charge(Order(id, cents))
    send_mail.delay(id, cents)  # glue


@app.task
def send_mail(id, cents):
    shop.send_mail(Order(id, cents))


@app.task(bind=True, max_retries=None)  # glue
def call_courier(self, id, cents):
    wait = shop.call_courier(Order(id, cents))
    if wait:  # glue
        raise self.retry(countdown=wait)  # glue


@app.task
def close_day():
    day = time.strftime("%Y-%m-%d")
    counters.set(f"regions-left:{day}", len(shop.REGIONS))  # glue
    for region in shop.REGIONS:
        sum_region.delay(day, region)  # glue


@app.task
def sum_region(day, region):
    shop.sum_up(Sales(day, region))
    if counters.decr(f"regions-left:{day}") == 0:  # glue
        send_report.delay(day)  # glue


@app.task
def send_report(day):
    shop.send_report(day)
