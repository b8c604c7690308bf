"""A Django site for tests: configured once in each process, on an SQLite file of its own."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

import django
from django.conf import settings

BACKEND = "jobboard.contrib.django.JobBoardBackend"
FOLDER = Path(tempfile.mkdtemp(prefix="jobboard-django-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def tasks_setting(**options: Any) -> dict[str, Any]:
    """Return a setting ``TASKS`` whose default backend has these options."""
    return {"default": {"BACKEND": BACKEND, "QUEUES": ["default", "mail"], "OPTIONS": options}}


def _database(file: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": FOLDER / file,
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }


def set_up() -> None:
    """Configure Django, unless that was done."""
    if settings.configured:
        return
    settings.configure(
        SECRET_KEY="tests",
        USE_TZ=True,
        DATABASES={"default": _database("default.db"), "other": _database("other.db")},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=[
            *(f"django.contrib.{app}" for app in ("admin", "auth", "contenttypes", "sessions", "messages")),
            *(["django_tasks"] if django.VERSION < (6, 0) else []),
            "jobboard.contrib.django",
            "django_site",
        ],
        TASKS=tasks_setting(),
        ALLOWED_HOSTS=["testserver"],
        ROOT_URLCONF="django_site.urls",
        STATIC_URL="static/",
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
    )
    django.setup()


set_up()
