"""A board behind ``django.tasks``; needs the extra ``jobboard[django]``.

.. code-block:: python

    INSTALLED_APPS = [..., "jobboard.contrib.django"]
    TASKS = {"default": {"BACKEND": "jobboard.contrib.django.JobBoardBackend"}}
"""

import jobboard.contrib.django.compat  # noqa: F401, first, since it says which extra is missing
from jobboard.contrib.django.backend import JobBoardBackend
from jobboard.contrib.django.boards import board, use_board
from jobboard.contrib.django.names import object_key
from jobboard.contrib.django.task import JobBoardTask
from jobboard.contrib.django.worker import task_handlers

__all__ = ["JobBoardBackend", "JobBoardTask", "board", "object_key", "task_handlers", "use_board"]
