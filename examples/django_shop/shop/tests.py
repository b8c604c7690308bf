"""The shop's tests: ``manage.py test``. Each has a board of its own in memory, and runs the tasks in its own thread."""

from unittest import mock

from django.test import TestCase
from django_tasks import task_backends

from jobboard.contrib.django import task_handlers
from jobboard.testing import inline, memory_board, posted, run_due
from shop.models import Invoice, Order
from shop.tasks import send_invoice


class OrderTests(TestCase):
    def setUp(self) -> None:
        self.board = self.enterContext(memory_board())
        site = task_backends["default"].site
        self.enterContext(mock.patch.object(site, "board", return_value=self.board))

    def test_an_order_gets_its_invoice(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            task = self.client.post("/orders/4711").json()["task"]
        assert posted(self.board, "shop.tasks.send_invoice").uuid == task
        run_due(self.board, task_handlers())
        assert Invoice.objects.filter(order__number=4711).exists()

    def test_a_task_runs_when_the_transaction_ends(self) -> None:
        Order.objects.create(number=4712)
        with inline(self.board, task_handlers()), self.captureOnCommitCallbacks(execute=True):
            result = send_invoice.enqueue(4712)
        result.refresh()
        assert result.return_value.endswith("of order 4712")
