"""The application that is tested: it posts jobs, and handles them."""

from jobboard import Handlers

handlers = Handlers()
sent = []


def place_order(board, order, amount):
    board.post("invoice", details={"order": order, "amount": amount}, key=order)
    board.post("remind", details={"order": order}, delay=7 * 86400)


@handlers.handler("invoice")
def invoice(job):
    if job.details["amount"] <= 0:
        raise ValueError("nothing to pay")
    sent.append(f"invoice {job.details['order']}")
    return len(sent)


@handlers.handler("remind")
async def remind(job):
    sent.append(f"reminder {job.details['order']}")
