"""A queue to the threads of the slots: a batch wakes one thread, not one for each item."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


class HandoffQueue(Generic[T]):
    """First in, first out. A thread that takes an item wakes the next one while there are more.

    So all threads wake if the items take time, and a few threads serve a batch of items that take none.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._popped = iter(self._items.popleft, object())
        #: One lock for each sleeping thread, which wakes when it is released.
        self._sleeping: list[threading.Lock] = []
        self._is_waking = False

    def put(self, items: Iterable[T], *, wake: bool = True) -> None:
        """Add items; returns at once.

        :param wake: False if the caller takes one itself.
        """
        self._items.extend(items)
        if wake:
            self.wake_one()

    def get(self) -> T:
        """Block until there is an item, and take it."""
        return self.take([])

    def take(self, into: list[T]) -> T:
        """Block until there is an item, add it to an empty list, and return it.

        No item is lost, also if another thread raises something in this one: it is in the queue or in the list.
        """
        while True:
            try:
                # One call in C, in the midst of which nothing can be raised.
                into.extend(islice(self._popped, 1))
            except IndexError:
                self._sleep()
                continue
            if self._items:
                self.wake_for_rest()
            return into[0]

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def wake_for_rest(self) -> None:
        """Wake a thread if there are items; one that was woken and has not come yet will wake the next one itself."""
        if self._items and not self._is_waking:
            self.wake_one()

    def _sleep(self) -> None:
        lock = threading.Lock()
        lock.acquire()
        try:
            self._sleeping.append(lock)
            if self._items:
                # They were added before this thread could be woken for them.
                self.wake_one()
            lock.acquire()
        except BaseException:
            # Somebody has raised it in this thread from another one, which may have been woken for an item by now.
            if lock in self._sleeping:
                self._sleeping.remove(lock)
            raise
        finally:
            self._is_waking = False

    def wake_one(self) -> None:
        """Wake a sleeping thread, if there is one."""
        try:
            lock = self._sleeping.pop()
        except IndexError:
            return
        self._is_waking = True
        lock.release()
