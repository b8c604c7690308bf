"""What the shop does later."""

import os
import time

from django_tasks import task

from shop.models import Invoice, Order


@task
def send_invoice(number: int) -> str:
    """May run twice, if its worker dies between the invoice and the end of the task: then the invoice is there."""
    time.sleep(float(os.environ.get("INVOICE_SECONDS", "0")))
    invoice, _ = Invoice.objects.get_or_create(order=Order.objects.get(number=number))
    return f"invoice {invoice.pk} of order {number}"


@task(queue_name="mail")
def thank(number: int) -> str:
    return f"thanks for order {number}"


@task
def close_day(note: str = "") -> str:
    return f"{Invoice.objects.count()} invoices{note and f', {note}'}"
