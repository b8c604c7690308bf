"""The Django app: the command ``manage.py jobboard``, and the board's tables in ``manage.py migrate``."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core.checks import register
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate

from jobboard.contrib.django.backend import JobBoardBackend
from jobboard.contrib.django.between_tests import empty_memory
from jobboard.contrib.django.checks import check_apps
from jobboard.contrib.django.compat import task_backends
from jobboard.contrib.django.schedules import check_schedules
from jobboard.contrib.django.site import close_boards


class JobBoardConfig(AppConfig):
    """The app ``jobboard.contrib.django``, with the label ``jobboard``."""

    name = "jobboard.contrib.django"
    label = "jobboard"
    verbose_name = "Job board"

    def ready(self) -> None:
        register(check_apps)
        register(check_schedules)
        post_migrate.connect(make_tables, sender=self, dispatch_uid="jobboard.contrib.django")
        connection_created.connect(release_database, dispatch_uid="jobboard.contrib.django")


def make_tables(using: str, **_: Any) -> None:
    """Make the tables of the boards that are in a database which was migrated; a board in memory has no tables.

    Django also says so when a ``TransactionTestCase`` has emptied the database at its end. Such a board is empty then.
    """
    sites = [backend.site for backend in task_backends.all() if isinstance(backend, JobBoardBackend)]
    for site in sites:
        if site.database == using:
            if site.is_in_database:
                site.migrate()
            elif site.is_in_memory:
                empty_memory(site.fetch())


def release_database(connection: Any, **_: Any) -> None:
    """Close the boards before Django makes, copies or drops a test database, which it does by a connection to none.

    PostgreSQL refuses that while others are connected to it.
    """
    if connection.alias == NO_DB_ALIAS:
        close_boards()
