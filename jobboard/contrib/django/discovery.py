"""Which tasks there are: those in the modules ``tasks`` of installed apps, and in further modules of the settings."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import module_has_submodule

from jobboard.conductor import Broken
from jobboard.contrib.django.compat import Task

#: The module of an app, or the package, that has its tasks.
_MODULE = "tasks"


def is_importable(module: str) -> bool:
    """Whether a worker imports a module whose name comes from the board: those of installed apps only."""
    return apps.get_containing_app_config(module) is not None


def is_searched(module: str, further: Collection[str]) -> bool:
    """Whether conductors look for tasks in a module.

    :param further: modules that the settings name.
    """
    if module in further:
        return True
    app = apps.get_containing_app_config(module)
    return app is not None and f"{module}.".startswith(f"{app.name}.{_MODULE}.")


def task_named(path: str) -> Task:
    """Return the task of a path; its module is imported if it is an app's.

    :raises Broken: what has that name is no task.
    :raises ImportError: there is none of that name here, which may be an older version of the program.
    """
    module, _, name = path.rpartition(".")
    if not is_importable(module):
        raise ImportError(f"no installed app has a module {module!r}")
    found = getattr(import_module(module), name, None)
    if found is None:
        raise ImportError(f"the module {module!r} has no {name!r}")
    if not isinstance(found, Task):
        raise Broken(f"{path} is not a task")
    return found


def all_tasks(further: Iterable[str] = ()) -> dict[str, Task]:
    """Import the modules of tasks, and return each task by its path.

    :param further: modules beside those of the apps.
    :raises ImproperlyConfigured: a module can't be imported.
    """
    found = {}
    for module in _modules(further):
        for name, value in vars(module).items():
            # One that is imported from elsewhere is that module's.
            if isinstance(value, Task) and value.module_path == f"{module.__name__}.{name}":
                found[value.module_path] = value
    return found


def _modules(further: Iterable[str]) -> Iterator[ModuleType]:
    for app in apps.get_app_configs():
        if module_has_submodule(app.module, _MODULE):
            module = _import(f"{app.name}.{_MODULE}")
            yield module
            for _, name, _ in walk_packages(getattr(module, "__path__", ()), f"{module.__name__}."):
                yield _import(name)
    for name in further:
        yield _import(name)


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except Exception as error:
        raise ImproperlyConfigured(f"the module {name!r} can't be imported: {error!r}") from error


def checked_task(path: str, tasks: Mapping[str, Task]) -> Task:
    """Return one of these tasks.

    :raises ImproperlyConfigured: there is none of this path; names similar ones.
    """
    if path not in tasks:
        raise ImproperlyConfigured(f"no conductor has a task {path!r}{_near(path, tasks)}")
    return tasks[path]


def _near(path: str, tasks: Iterable[str]) -> str:
    """Return the paths that may be meant: those that look alike, and those of the same name."""
    same = [each for each in tasks if each.rpartition(".")[2] == path.rpartition(".")[2]]
    near = dict.fromkeys([*same, *difflib.get_close_matches(path, list(tasks), 3)])
    if near:
        return f"; did you mean {', '.join(near)}?"
    return "; tasks are found in the module tasks of installed apps, and in OPTIONS['modules']"
