"""The shop's tests: ``manage.py test``. Each has a board of its own in memory, and runs the tasks in its own thread."""

from django.contrib.auth import get_user_model
from django.test import TestCase

from jobboard import Cron, Schedule
from jobboard.contrib.django import task_handlers, use_board
from jobboard.testing import inline, memory_board, posted, run_due
from shop.models import Invoice, Order
from shop.tasks import close_day, send_invoice


class OrderTests(TestCase):
    def setUp(self) -> None:
        self.board = self.enterContext(memory_board())
        self.enterContext(use_board(self.board))

    def test_an_order_gets_its_invoice(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            task = self.client.post("/orders/4711").json()["task"]
        assert posted(self.board, "shop.tasks.send_invoice").uuid == task
        run_due(self.board, task_handlers())
        assert Invoice.objects.filter(order__number=4711).exists()

    def test_a_schedule_closes_the_day(self) -> None:
        trigger = Cron("0 3 * * *", tz="Europe/Berlin")
        self.board.schedules.add(Schedule("nightly", trigger, close_day, {"note": "so far"}))
        job = self.board.schedules.fire_now("nightly")
        run_due(self.board, task_handlers())
        assert close_day.get_result(job.uuid).return_value == "0 invoices, so far"

    def test_the_admin_shows_an_orders_jobs(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            self.client.post("/orders/4713")
        job, order = posted(self.board, "shop.tasks.thank"), Order.objects.get()
        self.client.force_login(get_user_model().objects.create_superuser("ann"))
        with self.settings(JOBBOARD_CONSOLE_URL="/jobs/b/jobs"):
            for page in ("/admin/jobboard/job/", f"/admin/shop/order/{order.pk}/change/"):
                self.assertContains(self.client.get(page), f'href="/jobs/b/jobs/jobs/{job.uuid}"')

    def test_a_task_runs_when_the_transaction_ends(self) -> None:
        Order.objects.create(number=4712)
        with inline(self.board, task_handlers()), self.captureOnCommitCallbacks(execute=True):
            result = send_invoice.enqueue(4712)
        result.refresh()
        assert result.return_value.endswith("of order 4712")
