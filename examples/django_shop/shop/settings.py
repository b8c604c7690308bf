"""The settings of a shop on SQLite, or on PostgreSQL if the environment names a database."""

import os

from jobboard import Cron

DEBUG = False
SECRET_KEY = os.environ.get("SHOP_KEY", "not for production")
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_FILE", "shop.db"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
if "PGDATABASE" in os.environ:
    parts = {"NAME": "PGDATABASE", "HOST": "PGHOST", "PORT": "PGPORT", "USER": "PGUSER", "PASSWORD": "PGPASSWORD"}
    DATABASES["default"] = {name: os.environ.get(variable, "") for name, variable in parts.items()}
    DATABASES["default"]["ENGINE"] = "django.db.backends.postgresql"

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
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
]
STATIC_URL = "static/"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django_tasks",  # before Django 6.0
    "jobboard.contrib.django",
    "shop",
]
TASKS = {
    "default": {
        "BACKEND": "jobboard.contrib.django.JobBoardBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"TASKS": {"shop.tasks.thank": {"timeout": 20, "max_attempts": 3}}},
    }
}
JOBBOARD_CONSOLE_URL = os.environ.get("CONSOLE_URL")
JOBBOARD_SCHEDULES = {
    "close-day": {"trigger": Cron("0 3 * * *", tz="Europe/Berlin"), "task": "shop.tasks.close_day"},
}
