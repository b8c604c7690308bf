"""Finds backends, executors and triggers among the installed packages' entry points."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from jobboard.errors import UnknownBackend

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def load_plugin(namespace: str, name: str, known: Callable[[str], list[str]] | None = None) -> Any:
    """Return what an entry point names.

    :param known: returns, of a namespace, what an error says that there is; by default all names.
    :raises LookupError: there is no such entry point; says which there are.
    :raises UnknownBackend: the package that it needs is not installed; says how to install it.
    """
    # Importing it takes longer than importing all of jobboard's own, and many programs use only a part of that.
    from stevedore import DriverManager
    from stevedore.exception import NoMatches

    faults: list[tuple[EntryPoint, BaseException]] = []

    def keep_fault(_manager: object, entry_point: EntryPoint, error: BaseException) -> None:
        faults.append((entry_point, error))

    names = plugin_names(namespace)
    if name not in names:
        listed = ", ".join((known or plugin_names)(namespace)) or "none; is jobboard installed?"
        near = "".join(f"; did you mean {close}?" for close in get_close_matches(name, names, n=1))
        raise LookupError(f"unknown: {name!r}{near}; there are: {listed}")
    try:
        manager: DriverManager[Any] = DriverManager(namespace, name, on_load_failure_callback=keep_fault)
    except NoMatches:
        entry_point, fault = faults[0] if faults else (None, None)
        if isinstance(fault, ModuleNotFoundError) and not str(fault.name).startswith("jobboard"):
            what = _requirement(entry_point) if entry_point else "jobboard"
            raise UnknownBackend(f"{name} needs the Python package {fault.name!r}: pip install '{what}'") from fault
        raise UnknownBackend(f"{name} can't be loaded: {fault!r}") from fault
    return manager.driver


def _requirement(entry_point: EntryPoint) -> str:
    """Return what to install for an entry point; it names its extra: ``rediss = module:Class [redis]``."""
    package = entry_point.dist.name if entry_point.dist else "jobboard"
    return f"{package}[{entry_point.extras[0]}]" if entry_point.extras else package


def plugin_names(namespace: str) -> list[str]:
    """Return the names of all entry points of a namespace, loading none of them."""
    from stevedore import NamedExtensionManager

    return sorted(set(NamedExtensionManager(namespace, names=[]).entry_points_names()))


def names_by_module(namespace: str) -> list[str]:
    """Return the names of all entry points of a namespace; those of one module are one text: ``redis (or rediss)``."""
    from importlib.metadata import entry_points

    modules: dict[str, list[str]] = {}
    for name in plugin_names(namespace):
        modules.setdefault(next(iter(entry_points(group=namespace, name=name))).module, []).append(name)
    return sorted(_one_text(names, module) for module, names in modules.items())


def _one_text(names: list[str], module: str) -> str:
    first = next((name for name in names if name in module.split(".")), names[0])
    others = ", ".join(name for name in names if name != first)
    return f"{first} (or {others})" if others else first
