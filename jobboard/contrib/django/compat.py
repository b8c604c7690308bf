"""The interface of ``django.tasks``: Django's own from 6.0 on, before that the package ``django-tasks``."""

from __future__ import annotations

from jobboard.errors import MissingExtra

try:
    import django

    if django.VERSION >= (6, 0):
        from django.tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
        from django.tasks.backends.base import BaseTaskBackend
        from django.tasks.base import DEFAULT_TASK_QUEUE_NAME, Task, TaskError
        from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
        from django.tasks.signals import task_enqueued, task_finished, task_started
        from django.utils.json import normalize_json
    else:
        from django_tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.base import DEFAULT_TASK_QUEUE_NAME, Task, TaskError
        from django_tasks.exceptions import InvalidTaskError as InvalidTask
        from django_tasks.exceptions import TaskResultDoesNotExist
        from django_tasks.signals import task_enqueued, task_finished, task_started
        from django_tasks.utils import normalize_json
except ModuleNotFoundError as error:
    if error.name not in ("django", "django_tasks"):
        raise
    raise MissingExtra(f"there is no Python package {error.name!r}: pip install 'jobboard[django]'") from error

#: The Django app that sends the signals and checks the settings; Django's own needs none.
TASKS_APP = None if django.VERSION >= (6, 0) else "django_tasks"

__all__ = [
    "DEFAULT_TASK_QUEUE_NAME",
    "TASKS_APP",
    "BaseTaskBackend",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
