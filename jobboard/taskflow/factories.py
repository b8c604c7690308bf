"""Which factories of flows a conductor may call: a job's logbook names one, so every poster chooses it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from oslo_utils.importutils import import_class


class AllowedFactories:
    """The factories of an allow-list.

    :param names: of factories (``"shop.flows.order_flow"``), which may be called, and of modules and packages
        (``"shop.flows"``), in which every callable that is defined there may be; it may be imported first.
    :raises TypeError: it is no list of texts.
    :raises ValueError: one of them is no dotted name.
    """

    def __init__(self, names: Collection[str]) -> None:
        if isinstance(names, str | bytes) or not isinstance(names, Collection):
            raise TypeError(f"factories must be a list of names, not {type(names).__name__}")
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"factories must be a list of names, which {name!r} is not")
            if not all(part.isidentifier() for part in name.split(".")):
                raise ValueError(f"factories: {name!r} is no dotted name such as 'shop.flows'")
        self._names = frozenset(names)

    def refusal(self, meta: object) -> str | None:
        """Say why the factory that a flow detail's ``meta`` names may not be called; None if it may, or is none.

        Imports the module of a factory that a prefix allows.
        """
        factory = meta.get("factory") if isinstance(meta, Mapping) else None
        if not isinstance(factory, Mapping) or "name" not in factory:
            # Without it TaskFlow calls nothing.
            return None
        name = factory["name"]
        if not isinstance(name, str) or not self._has(name):
            return f"the factory {name!r} is not among the factories= of this conductor"
        return None if name in self._names else self._refusal_of_origin(name)

    def _refusal_of_origin(self, name: str) -> str | None:
        """Refuse what a module below a prefix has only imported, such as ``subprocess.run``."""
        try:
            found = import_class(name)
        except (ImportError, ValueError) as error:
            return f"the factory {name!r} can't be imported: {type(error).__name__}"
        origin = f"{getattr(found, '__module__', None)}.{getattr(found, '__qualname__', None)}"
        if self._has(origin):
            return None
        return f"the factory {name!r} is {origin!r}, which is not among the factories= of this conductor"

    def _has(self, name: str) -> bool:
        return any(name == entry or name.startswith(f"{entry}.") for entry in self._names)
