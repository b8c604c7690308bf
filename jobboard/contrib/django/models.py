"""What the admin lists as "Jobs", and whose permission it asks for; jobs are on a board, and in no table of Django's.

Django tells only apps that have this module of a migration.
"""

from __future__ import annotations

from typing import Any

from django.db import models


class NoRows(models.Manager):
    """A manager that asks no database: ``dumpdata`` and the like find nothing."""

    def get_queryset(self) -> Any:
        return super().get_queryset().none()


class Job(models.Model):
    """No rows: it is there so that the admin has a page, and users can have ``jobboard.view_job``."""

    uuid = models.UUIDField(primary_key=True)

    objects = NoRows()

    class Meta:
        managed = False
        base_manager_name = "objects"
        default_permissions = ("view",)
        verbose_name = "job"
        verbose_name_plural = "jobs"
