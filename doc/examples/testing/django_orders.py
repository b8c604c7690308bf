"""Django's TestCase with the kit; ``python -m pytest django_orders.py``."""

from dataclasses import dataclass

import django
from django.conf import settings

if not settings.configured:
    in_memory = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    settings.configure(DATABASES={"default": in_memory}, INSTALLED_APPS=[], USE_TZ=True)
    django.setup()

import pytest
from django.db import connection, models, transaction
from django.test import TestCase
from django.test.utils import setup_databases, teardown_databases

from jobboard import Handlers
from jobboard.testing import inline, memory_board, posted, refuse, run_due

handlers = Handlers()


class Order(models.Model):
    paid = models.BooleanField(default=False)

    class Meta:
        app_label = "shop"


@dataclass
class Invoice:
    order: int


@handlers.handler
def invoice(wanted: Invoice):
    return Order.objects.filter(pk=wanted.order).update(paid=True)


def place_order(board):
    with transaction.atomic():
        order = Order.objects.create()
        invoice.post(board, Invoice(order.pk), connection=connection)
    return order


@pytest.fixture(autouse=True, scope="module")
def database():
    old = setup_databases(verbosity=0, interactive=False)
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    yield
    teardown_databases(old, verbosity=0)


# The tests:


class OrderTests(TestCase):
    def setUp(self):
        self.board = self.enterContext(memory_board())  # hand it to what posts

    def test_an_order_is_paid(self):
        order = place_order(self.board)
        posted(self.board, "invoice", details={"order": order.pk})
        run_due(self.board, handlers)  # in this thread: handlers see what the test has not committed
        order.refresh_from_db()
        assert order.paid

    def test_a_post_on_commit(self):
        order = Order.objects.create()
        with inline(self.board, handlers), self.captureOnCommitCallbacks(execute=True):
            transaction.on_commit(lambda: invoice.post(self.board, Invoice(order.pk)))
            refuse(self.board, "invoice")
        order.refresh_from_db()
        assert order.paid

    def test_each_test_has_its_own_board(self):
        refuse(self.board, "invoice")
