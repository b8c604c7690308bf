"""What begins anew in a forked child: none of its parent's threads are there, and they may have held any lock."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class BeginsAnew(Protocol):
    def _begin_anew_in_child(self) -> None:
        """Forget what threads of the parent do, and what they have locked; nothing that was theirs may be used."""


_all: weakref.WeakSet[BeginsAnew] = weakref.WeakSet()


def watch_forks(one: BeginsAnew) -> None:
    """Have its method called in each child that is forked while it lives, before anything else of the child."""
    _all.add(one)


def _begin_anew() -> None:
    for one in list(_all):
        one._begin_anew_in_child()


os.register_at_fork(after_in_child=_begin_anew)
