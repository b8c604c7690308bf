"""How tasks are run, by ``OPTIONS``: the same for all tasks of a backend, and what ``TASKS`` says of single ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from jobboard.conductor import Handlers
from jobboard.contrib.django.compat import Task
from jobboard.contrib.django.discovery import all_tasks, checked_task, is_importable

_NAMES = ("max_attempts", "backoff", "timeout")
#: For all tasks it is an option of the board.
_OF_ONE = (*_NAMES, "retention")
#: Where nothing, or None, is given.
_MAX_ATTEMPTS = 5


class TaskSettings:
    """The part of a backend's options that is about its tasks.

    :param options: of the backend; what is about tasks is taken out.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._of_all = {
            "max_attempts": _MAX_ATTEMPTS,
            **{name: options.pop(name) for name in _NAMES if name in options},
        }
        self._of_one: Mapping[str, Mapping[str, Any]] = options.pop("TASKS", {})
        #: Further modules of installed apps that have tasks, beside those named ``tasks``.
        self.modules: Collection[str] = options.pop("modules", ())

    def of(self, path: str) -> dict[str, Any]:
        """Return the options of the handler of a task: ``max_attempts``, and what else is given."""
        options = {**self._of_all, **self._of_one.get(path, {})}
        return options if options["max_attempts"] is not None else {**options, "max_attempts": _MAX_ATTEMPTS}

    @property
    def of_all(self) -> dict[str, Any]:
        """The options of the handler of a task that the settings don't name."""
        return dict(self._of_all)

    def tasks(self) -> dict[str, Task]:
        """Return the tasks that conductors have, by their paths.

        :raises ImproperlyConfigured: a module of theirs can't be imported.
        """
        return all_tasks(self.modules)

    def check(self) -> None:
        """Check the values, and that there are the tasks and the modules that are named.

        :raises TypeError, ValueError: an option can't be used.
        :raises ImproperlyConfigured: there is no such task or module; names similar ones.
        """
        _check_options(self._of_all)
        if not isinstance(self._of_one, Mapping):
            raise TypeError(f"TASKS must be a dict path -> options, not {type(self._of_one).__name__}")
        if isinstance(self.modules, str) or not isinstance(self.modules, Collection):
            raise TypeError(f"modules must be a list of modules, not {type(self.modules).__name__}")
        if strange := [name for name in self.modules if not is_importable(name)]:
            raise ValueError(f"modules has {strange[0]!r}, which is in no installed app")
        if not self._of_one and not self.modules:
            return
        there = self.tasks()
        for path, options in self._of_one.items():
            checked_task(path, there)
            try:
                _check_options({**self._of_all, **options})
            except (TypeError, ValueError) as error:
                raise ValueError(f"TASKS[{path!r}]: {error}") from None


def _check_options(options: dict[str, Any]) -> None:
    if unknown := sorted(set(options) - set(_OF_ONE)):
        raise ValueError(f"there is no option {', '.join(unknown)}; there are {', '.join(_OF_ONE)}")
    Handlers().add("task", print, **options)
