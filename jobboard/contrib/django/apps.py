"""The Django app: the command ``manage.py jobboard``, and the board's tables in ``manage.py migrate``."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core.checks import register
from django.db.models.signals import post_migrate

from jobboard.contrib.django.backend import JobBoardBackend
from jobboard.contrib.django.checks import check_apps
from jobboard.contrib.django.compat import task_backends


class JobBoardConfig(AppConfig):
    """The app ``jobboard.contrib.django``, with the label ``jobboard``."""

    name = "jobboard.contrib.django"
    label = "jobboard"
    verbose_name = "Job board"

    def ready(self) -> None:
        register(check_apps)
        post_migrate.connect(make_tables, sender=self, dispatch_uid="jobboard.contrib.django")


def make_tables(using: str, **_: Any) -> None:
    """Make the tables of the boards that are in a database which was migrated."""
    for backend in task_backends.all():
        if isinstance(backend, JobBoardBackend) and backend.site.is_in_database and backend.site.database == using:
            backend.site.migrate()
