"""The admin's page "Jobs", and :class:`JobsMixin`, which shows the jobs of an object on its own page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import path

from jobboard.contrib.django.compat import task_backends
from jobboard.contrib.django.job_links import JobLines, board_backends, jobs_of_key, listed_jobs
from jobboard.contrib.django.models import Job
from jobboard.contrib.django.names import object_key
from jobboard.errors import JobBoardError
from jobboard.states import JobState


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    """Lists jobs to staff with the permission ``jobboard.view_job``; changes nothing, and shows no details."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_urls(self) -> list[Any]:
        return [path("", self.admin_site.admin_view(self.changelist_view), name="jobboard_job_changelist")]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show a page of jobs; the URL says of which state, task and key."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        given = {name: text.strip() for name, text in request.GET.items() if text.strip()}
        aliases = board_backends()
        if not aliases:
            raise ImproperlyConfigured("TASKS has no backend that is a board")
        alias = given.get("backend", aliases[0])
        page, fault = JobLines([]), None
        try:
            if alias not in aliases:
                raise ValueError(f"TASKS has no board {alias!r}")
            state = JobState(given["state"].upper()) if "state" in given else None
            page = listed_jobs(alias, state, given.get("task"), given.get("key"), given.get("after"))
        except (JobBoardError, ValueError) as error:
            fault = str(error)
        context = {
            **self.admin_site.each_context(request),
            **(extra_context or {}),
            "title": "Jobs",
            "opts": self.opts,
            "page": page,
            "fault": fault,
            "given": given,
            "alias": alias,
            "aliases": aliases,
            "states": [state.value.lower() for state in JobState],
            "tasks": sorted(task_backends[alias].tasks.tasks()) if alias in aliases else [],
            "next": urlencode({**given, "after": page.next}) if page.next else None,
        }
        return TemplateResponse(request, "jobboard/admin_jobs.html", context)


class JobsMixin(admin.ModelAdmin):
    """For a ``ModelAdmin``: shows the jobs of an object on its page, to users with ``jobboard.view_job``.

    They are those of ``jobboard_tasks`` whose key is :meth:`jobboard_key`, so enqueue them with that key:
    ``send_invoice.using(key=object_key(order))``.
    """

    #: The tasks, or their paths; each is a request or more for the page.
    jobboard_tasks: Sequence[Any] = ()
    #: The alias of their backend in ``TASKS``.
    jobboard_backend = "default"

    def jobboard_key(self, obj: Any) -> str:
        """Return the key of an object's jobs; :func:`object_key` by default."""
        return object_key(obj)

    @admin.display(description="Jobs")
    def jobboard_jobs(self, obj: Any) -> str:
        """Return the lines of an object's jobs."""
        page, fault = JobLines([]), None
        try:
            page = jobs_of_key(self.jobboard_backend, self.jobboard_tasks, self.jobboard_key(obj))
        except JobBoardError as error:
            fault = str(error)
        return render_to_string("jobboard/object_jobs.html", {"page": page, "fault": fault})

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        fields = list(super().get_readonly_fields(request, obj))
        return [*fields, "jobboard_jobs"] if self._shows_jobs(request, obj) else fields

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        fieldsets = list(super().get_fieldsets(request, obj))
        if not self._shows_jobs(request, obj) or any("jobboard_jobs" in each["fields"] for _, each in fieldsets):
            return fieldsets
        return [*fieldsets, ("Jobs", {"fields": ["jobboard_jobs"]})]

    def _shows_jobs(self, request: HttpRequest, obj: Any) -> bool:
        return obj is not None and request.user.has_perm("jobboard.view_job")
