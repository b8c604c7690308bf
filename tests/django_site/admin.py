"""Orders in the admin, with their jobs."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from django_site import tasks
from django_site.models import Order
from jobboard.contrib.django.admin import JobsMixin


@admin.register(Order)
class OrderAdmin(JobsMixin, admin.ModelAdmin):
    jobboard_tasks = [tasks.add, "django_site.tasks.mail"]

    def jobboard_key(self, obj: Any) -> str:
        return f"order/{obj.number}" if obj.number >= 100 else super().jobboard_key(obj)
