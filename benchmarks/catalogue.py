"""What is loaded when it is asked for, so that a package that is not installed stops only what needs it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jobboard.errors import MissingExtra


class MissingPackage(SystemExit):
    """A package is missing; says which, and the extra that brings it."""


class Catalogue(Mapping[str, Any]):
    """Named things, each of which stands in a module.

    :param places: each thing's module and name there, such as ``"benchmarks.aio:measure_aio"``, and the extra of
        jobboard that it needs.
    """

    def __init__(self, places: dict[str, tuple[str, str]]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> Any:
        """Load a thing.

        :raises MissingPackage: a package that it needs is not there.
        """
        place, extra = self._places[name]
        module, _, attribute = place.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except MissingExtra as error:
            raise MissingPackage(f"{name}: {error}") from error
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] in ("benchmarks", "jobboard"):
                raise
            text = f"{name} needs the Python package {error.name!r}: pip install 'jobboard[{extra}]'"
            raise MissingPackage(text) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def load(self, named: Iterable[str], others: Iterable[str]) -> dict[str, Any]:
        """Load what is named; or, if nothing is, those of ``others`` that can be loaded, and say what can't."""
        if wanted := list(named):
            return {name: self[name] for name in wanted}
        loaded = {}
        for name in others:
            try:
                loaded[name] = self[name]
            except MissingPackage as error:
                print(f"# left out: {error}")
        return loaded
