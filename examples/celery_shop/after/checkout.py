"""What the web application calls."""

import jobboard  # glue
from celery_shop.after.tasks import call_courier, charge
from celery_shop.shop import Order

board = jobboard.open("shop")  # glue


def check_out(order: Order) -> None:
    charge.post(board, order)  # glue
    call_courier.post(board, order, delay=2)  # glue
