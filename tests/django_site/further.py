"""Tasks that are not in a module ``tasks``; the settings name this one."""

from __future__ import annotations

from django_site.tasks import task


@task
def aside() -> str:
    return "aside"
