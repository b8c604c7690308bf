"""The handlers that ``manage.py jobboard conductor`` runs unless it names others: those of the default task backend."""

from jobboard.contrib.django.worker import task_handlers

handlers = task_handlers()
