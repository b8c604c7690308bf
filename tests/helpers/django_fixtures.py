"""What the tests of Django share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from django_site import tasks, tasks_setting
from django_site.models import Order

from jobboard import Conductor, JobBoard
from jobboard.contrib.django import JobBoardBackend, task_handlers
from jobboard.contrib.django.compat import TaskResult, task_backends
from jobboard.contrib.django.site import close_boards


@pytest.fixture(scope="session")
def migrated() -> None:
    for alias in connections:
        call_command("migrate", run_syncdb=True, database=alias, verbosity=0)


@contextmanager
def site(**options: Any) -> Iterator[JobBoardBackend]:
    """Use a new board with these options."""
    with override_settings(TASKS=tasks_setting(**{"name": f"test-{uuid.uuid4()}", "max_attempts": 1, **options})):
        try:
            yield task_backends["default"]
        finally:
            close_boards()


@pytest.fixture
def backend(migrated: None) -> Iterator[JobBoardBackend]:
    """The default backend, with a board of its own in Django's database; what fails is not tried again."""
    tasks.calls.clear()
    tasks.go_on.clear()
    Order.objects.all().delete()
    with site() as found:
        yield found
    connections.close_all()


@pytest.fixture
def board(backend: JobBoardBackend) -> JobBoard:
    return backend.site.board()


@contextmanager
def working(board: JobBoard, **options: Any) -> Iterator[Conductor]:
    """Run tasks."""
    conductor = Conductor("worker", board, task_handlers(), **options)
    conductor.start()
    try:
        yield conductor
    finally:
        conductor.stop(timeout=30)


def run(board: JobBoard, *results: TaskResult) -> None:
    """Run tasks until these have ended, and refresh their results."""
    with working(board):
        for result in results:
            board.get(result.id).wait(30)
    for result in results:
        result.refresh()


@contextmanager
def received(signal: Any) -> Iterator[list[Any]]:
    """Collect what a signal sends, as pairs of sender and the result's id and status then."""
    found: list[Any] = []

    def note(sender: Any, task_result: TaskResult, **_: Any) -> None:
        found.append((sender, task_result.id, str(task_result.status)))

    signal.connect(note)
    try:
        yield found
    finally:
        signal.disconnect(note)
