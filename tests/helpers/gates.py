"""A request that waits in the store until a test lets it go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jobboard.testing import LossyBackend


class Gate:
    """Holds up the first call of a primitive until it is opened, and notes how many items each call has."""

    def __init__(self, backend: LossyBackend, primitive: str) -> None:
        self.sizes: list[int] = []
        self.entered, self.opened = threading.Event(), threading.Event()
        self._call: Callable[..., Any] = getattr(backend.inner.jobs, primitive)
        setattr(backend.inner.jobs, primitive, self)

    def __call__(self, *args: Any) -> Any:
        self.sizes.append(len(args[0]))
        self.entered.set()
        assert self.opened.wait(30)
        return self._call(*args)
