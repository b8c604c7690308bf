"""The application that is tested: it posts jobs, and handles them."""

from dataclasses import dataclass
from datetime import timedelta

from jobboard import Handlers

handlers = Handlers()
sent = []


@dataclass
class Order:
    order: str
    amount: int


def place_order(board, order):
    invoice.post(board, order, key=order.order)
    remind.post(board, order, delay=timedelta(days=7))


@handlers.handler
def invoice(order: Order):
    if order.amount <= 0:
        raise ValueError("nothing to pay")
    sent.append(f"invoice {order.order}")
    return len(sent)


@handlers.handler
async def remind(order: Order):
    sent.append(f"reminder {order.order}")
