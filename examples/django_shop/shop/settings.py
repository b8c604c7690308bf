"""The settings of a shop on SQLite, or on PostgreSQL if the environment names a database."""

import os

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

INSTALLED_APPS = [
    "django_tasks",  # before Django 6.0
    "jobboard.contrib.django",
    "shop",
]
TASKS = {"default": {"BACKEND": "jobboard.contrib.django.JobBoardBackend"}}
