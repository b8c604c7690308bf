"""The board of the settings, for code that posts and looks at jobs by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ImproperlyConfigured

from jobboard.board import JobBoard
from jobboard.contrib.django.backend import JobBoardBackend
from jobboard.contrib.django.compat import task_backends


def backend_of(alias: str) -> JobBoardBackend:
    """Return the backend of an alias in ``TASKS``.

    :raises ImproperlyConfigured: there is none, or it is no :class:`JobBoardBackend`; says what to set.
    """
    if alias not in (there := list(task_backends)):
        raise ImproperlyConfigured(f"TASKS has no backend {alias!r}; it has {', '.join(there)}")
    return JobBoardBackend.checked(task_backends[alias])


def board(alias: str = "default") -> JobBoard:
    """Return the board of the settings, connected: one for all threads of a process, also after a fork.

    Call it where you use the board; it costs no request but the first time.

    :param alias: of the backend in ``TASKS``.
    :raises ImproperlyConfigured: no board has this alias; says what to set.
    :raises BoardUnavailable: the store can't be reached.
    """
    return backend_of(alias).site.board()


@contextmanager
def use_board(instead: JobBoard, alias: str = "default") -> Iterator[JobBoard]:
    """Let the tasks and :func:`board` use another board until the ``with`` block ends, in all threads; for tests.

    :param instead: such as that of :func:`jobboard.testing.memory_board`.
    :param alias: of the backend in ``TASKS``.
    :raises ImproperlyConfigured: no board has this alias; says what to set.
    """
    with backend_of(alias).site.replaced_by(instead):
        yield instead
