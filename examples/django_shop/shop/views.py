"""The shop's pages: an order and its task are one transaction."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from django_tasks.exceptions import TaskResultDoesNotExist

from jobboard.contrib.django import object_key
from shop.models import Invoice, Order
from shop.tasks import send_invoice, thank


@csrf_exempt
@require_POST
def order(request: HttpRequest, number: int) -> JsonResponse:
    with transaction.atomic():
        made = Order.objects.create(number=number)
        result = send_invoice.enqueue(number)
        thank.using(key=object_key(made)).enqueue(number)
        if "unpaid" in request.GET:
            raise ValueError("not paid: there is neither an order nor a task")
    return JsonResponse({"task": result.id}, status=201)


def task(request: HttpRequest, result_id: str) -> JsonResponse:
    try:
        result = send_invoice.get_result(result_id)
    except TaskResultDoesNotExist:
        return JsonResponse({"error": "no such task"}, status=404)
    returned = result.return_value if result.status == "SUCCESSFUL" else None
    return JsonResponse({"status": result.status, "attempts": result.attempts, "returned": returned})


def invoices(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"orders": list(Invoice.objects.values_list("order__number", flat=True).order_by("order"))})
