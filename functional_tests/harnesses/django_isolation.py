"""Tests that Django's runner runs in the shop of the examples: each begins with an empty board."""

from __future__ import annotations

from django.test import TestCase, TransactionTestCase
from django_tasks import task_backends
from shop.models import Order
from shop.tasks import send_invoice

from jobboard import Every, JobBoard, JobState, Schedule
from jobboard.contrib.django import task_handlers
from jobboard.testing import run_due


class Used:
    """Looks at the board of the settings, uses it, and leaves it full."""

    def use(self, number: int, is_committed: bool) -> None:
        site = task_backends["default"].site
        board: JobBoard = site.board()
        if not site.is_in_database:
            assert list(board.iterjobs(states=set(JobState))) == list(board.schedules) == [], "the last test's jobs"
            board.schedules.add(Schedule("hourly", Every(hours=1), "report"))
        Order.objects.create(number=number)
        with TestCase.captureOnCommitCallbacks(execute=True):
            send_invoice.enqueue(number)
        send_invoice.enqueue(number)
        if is_committed or not site.is_in_database:
            assert len(run_due(board, task_handlers())) in (1, 2)
        assert site.board() is board


class EachTest(Used, TestCase):
    def test_one(self) -> None:
        self.use(1, is_committed=False)

    def test_two(self) -> None:
        self.use(2, is_committed=False)

    def test_three(self) -> None:
        self.use(3, is_committed=False)


class EachTransactionTest(Used, TransactionTestCase):
    def test_one(self) -> None:
        self.use(1, is_committed=True)

    def test_two(self) -> None:
        self.use(2, is_committed=True)

    def test_three(self) -> None:
        self.use(3, is_committed=True)
