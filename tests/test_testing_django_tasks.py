"""The kit with Django's tasks, as the page on tests shows it."""

from __future__ import annotations

from unittest import mock

import pytest
from django.test import TestCase, override_settings
from django_site import tasks, tasks_setting
from helpers.django_fixtures import migrated

from jobboard.contrib.django import task_handlers
from jobboard.contrib.django.compat import task_backends
from jobboard.testing import inline, memory_board, posted, run_due

__all__ = ["migrated"]


@pytest.mark.usefixtures("migrated")
@override_settings(TASKS=tasks_setting(uri="memory://"))
class TaskTests(TestCase):
    def setUp(self):
        self.board = self.enterContext(memory_board())
        site = task_backends["default"].site
        self.enterContext(mock.patch.object(site, "board", return_value=self.board))

    def test_a_task_runs(self):
        with self.captureOnCommitCallbacks(execute=True):
            result = tasks.mail.enqueue("ann")
        assert posted(self.board, "django:mail").uuid == result.id
        run_due(self.board, task_handlers())
        result.refresh()
        assert result.return_value == "ann"

    def test_a_task_runs_at_the_end_of_the_transaction(self):
        with inline(self.board, task_handlers()), self.captureOnCommitCallbacks(execute=True):
            result = tasks.mail.enqueue("ann")
        result.refresh()
        assert result.return_value == "ann"
