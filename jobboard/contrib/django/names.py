"""What the jobs of tasks are named: ``shop.tasks.sms``, or ``shop.tasks.sms@bulk`` in another queue than its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from jobboard.contrib.django.compat import Task

#: Jobs were named ``django`` or ``django:QUEUE``; conductors still run them.
_OLD_NAME = "django"


def job_name(task: Task, queue: str, queues: Collection[str]) -> str:
    """Return the name of the jobs of a task in a queue.

    :param task: as its module has it, in its own queue.
    :param queues: of the backend; with none, a queue is no more than a label.
    """
    return task.module_path if not queues or queue == task.queue_name else f"{task.module_path}@{queue}"


def job_names(task: Task, wanted: Collection[str], queues: Collection[str]) -> Iterator[str]:
    """Iterate over the names of a task's jobs in these queues of a backend."""
    if not queues or task.queue_name in wanted:
        yield task.module_path
    if len(queues) > 1:
        # Also of its own: what was posted there may be from when it had another one.
        yield from (f"{task.module_path}@{queue}" for queue in sorted(wanted))


def old_names(wanted: Collection[str], queues: Collection[str]) -> Iterator[str]:
    """Iterate over the names that older versions gave to the jobs of these queues."""
    if set(wanted) == set(queues):
        yield _OLD_NAME
    yield from (f"{_OLD_NAME}:{queue}" for queue in sorted(wanted))


def is_old(name: str) -> bool:
    """Whether an older version gave a job this name."""
    return name.partition(":")[0] == _OLD_NAME


def path_of(name: str) -> str:
    """Return the path of the task whose jobs have this name."""
    return name.partition("@")[0]


def object_key(obj: Any) -> str:
    """Return the key under which the admin finds the jobs of an object: ``shop.Order/7``.

    :raises ValueError: it is not saved yet, and has no primary key.
    """
    if obj.pk is None:
        raise ValueError(f"{obj._meta.label} is not saved yet: it has no primary key")
    return f"{obj._meta.label}/{obj.pk}"
