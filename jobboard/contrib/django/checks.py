"""What ``manage.py check`` says of the settings; no database is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.utils.connection import ConnectionDoesNotExist

from jobboard.contrib.django.compat import TASKS_APP
from jobboard.errors import JobBoardError

if TYPE_CHECKING:
    from jobboard.contrib.django.backend import JobBoardBackend

_APP = "jobboard.contrib.django"


def check_apps(**_: Any) -> Iterator[CheckMessage]:
    """Check that the app is there which tells the task backends to check themselves."""
    if TASKS_APP is not None and not apps.is_installed(TASKS_APP):
        yield Error(
            "without its app, django-tasks checks no settings and logs no task",
            hint=f"Add {TASKS_APP!r} to INSTALLED_APPS.",
            id="jobboard.E001",
        )


def check_backend(backend: JobBoardBackend) -> Iterator[CheckMessage]:
    """Check the settings of one backend."""
    if not apps.is_installed(_APP):
        yield Warning(
            "manage.py has no command 'jobboard', which runs the tasks",
            hint=f"Add {_APP!r} to INSTALLED_APPS.",
            obj=backend.alias,
            id="jobboard.W001",
        )
    try:
        backend.tasks.check()
        board = backend.site.fetch()
    except (ConnectionDoesNotExist, ImproperlyConfigured, JobBoardError, TypeError, ValueError) as error:
        yield Error(f"OPTIONS can't be used: {error}", obj=backend.alias, id="jobboard.E002")
        return
    if not board.capabilities.processes and not backend.site.is_in_test_memory:
        yield Warning(
            "the board is in memory: its tasks end with this process, and no worker sees them",
            obj=backend.alias,
            id="jobboard.W002",
        )
    if backend.site.is_in_database:
        yield from _check_transactions(backend)


def _check_transactions(backend: JobBoardBackend) -> Iterator[CheckMessage]:
    connection = backend.site.connection()
    mode = connection.settings_dict["OPTIONS"].get("transaction_mode") or ""
    if connection.vendor == "sqlite" and mode.upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield Warning(
            "a transaction that reads before it enqueues fails with 'database is locked' if a worker wrote meanwhile",
            hint='Set "OPTIONS": {"transaction_mode": "IMMEDIATE"} for this database.',
            obj=backend.alias,
            id="jobboard.W003",
        )
