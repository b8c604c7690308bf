"""A cache of limited size for what a client has read or written."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")


class LruCache(Generic[V]):
    """Keeps the values that were put in last; thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._content: OrderedDict[str, V] = OrderedDict()

    def get(self, key: str) -> V | None:
        return self._content.get(key)

    def put(self, key: str, value: V) -> None:
        with self._lock:
            self._content[key] = value
            self._content.move_to_end(key)
            while len(self._content) > self._size:
                self._content.popitem(last=False)

    def forget(self, key: str) -> None:
        with self._lock:
            self._content.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._content.clear()

    def values(self) -> list[V]:
        with self._lock:
            return list(self._content.values())
