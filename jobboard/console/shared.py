"""What many browsers look at at once: asked for once, and kept for a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.exceptions import HTTPException

from jobboard.operate.sampling import Sampler

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.console.view import View

Answer = TypeVar("Answer")

#: So many answers are kept.
_MAX_ANSWERS = 50


class SharedAnswers:
    """The answers of one board."""

    def __init__(self, _board: JobBoard) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._answers: dict[Hashable, tuple[float, Any]] = {}

    def get(self, key: Hashable, ask: Callable[[], Answer], seconds: float = 2.0) -> Answer:
        """Return the answer, which is so many seconds old at most; of those who want it at once, one asks."""
        with self._lock:
            if key not in self._locks and len(self._locks) >= _MAX_ANSWERS:
                self._locks.clear()
                self._answers.clear()
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            at, answer = self._answers.get(key, (0.0, None))
            if not at or time.monotonic() - at >= seconds:
                at, answer = time.monotonic(), ask()
                self._answers[key] = at, answer
        found: Answer = answer
        return found

    def forget(self) -> None:
        """Something has been changed here: ask anew."""
        with self._lock:
            self._locks.clear()
            self._answers.clear()


def sampler_of(view: View) -> Sampler:
    """Return what knows how the board is and was."""
    return view.part(view.settings.make_sampler)


def checked(check: Callable[..., Answer], *value: object) -> Answer:
    """Return what ``check`` does; what a user has mistyped, or made up, is answered with 400."""
    try:
        return check(*value)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error


def answers_of(view: View) -> SharedAnswers:
    return view.part(SharedAnswers)
