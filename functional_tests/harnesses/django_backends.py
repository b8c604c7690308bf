"""The settings of the shop, with its board behind a second backend of tasks."""

from shop.settings import *  # noqa: F403
from shop.settings import TASKS as _TASKS

TASKS = {
    "default": {**_TASKS["default"], "BACKEND": "django_tasks.backends.dummy.DummyBackend", "OPTIONS": {}},
    "mail": {**_TASKS["default"], "OPTIONS": {"name": "mail"}},
}
