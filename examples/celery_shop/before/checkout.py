"""What the web application calls."""

from celery_shop.before.tasks import call_courier, charge
from celery_shop.shop import Order


def check_out(order: Order) -> None:
    charge.delay(order.id, order.cents)  # glue
    call_courier.apply_async((order.id, order.cents), countdown=2)  # glue
