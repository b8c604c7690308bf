"""The handlers that a conductor may run: only what was registered here is ever called."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from jobboard.conductor.backoff import Backoff
from jobboard.validation import check_count, check_number, check_text

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Handler:
    """One handler and its rules."""

    name: str
    function: Callable[..., Any]
    max_attempts: int
    backoff: Backoff
    timeout: float | None

    @property
    def is_async(self) -> bool:
        """Whether calling it makes a coroutine; also for a partial, and for an object that is called."""
        call = getattr(self.function, "__call__", None)  # noqa: B004, its kind is asked, not its presence
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)


class Handlers:
    """Maps job names to functions; a job whose name isn't here is left to other conductors."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def handler(
        self,
        name: str | None = None,
        *,
        max_attempts: int = 5,
        backoff: Backoff | None = None,
        timeout: float | None = None,
    ) -> Callable[[Function], Function]:
        """Register the decorated function, plain or ``async``, for jobs of this name; it takes the job.

        :param name: the function's own name if None.
        :param max_attempts: after so many failures the job goes to the trash; the posting's own number wins.
        :param backoff: the wait between attempts; :class:`Backoff` with its defaults if None.
        :param timeout: seconds after which a run counts as failed; None for no limit.
        """
        if name is not None:
            # @handlers.handler without parentheses hands the function over as the name.
            check_text("a handler's name", name)

        def register(function: Function) -> Function:
            known_as = function.__name__ if name is None else name
            self.add(known_as, function, max_attempts=max_attempts, backoff=backoff, timeout=timeout)
            return function

        return register

    def add(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        max_attempts: int = 5,
        backoff: Backoff | None = None,
        timeout: float | None = None,
    ) -> None:
        """Register a function; arguments as for :meth:`handler`.

        :raises ValueError: the name has a handler already.
        """
        check_text("a handler's name", name)
        if not callable(function):
            raise TypeError(f"a handler must be callable, not {type(function).__name__}")
        if backoff is not None and not isinstance(backoff, Backoff):
            raise TypeError(f"backoff must be a Backoff, not {type(backoff).__name__}")
        self._put(
            Handler(
                name,
                function,
                check_count("max_attempts", max_attempts),
                backoff or Backoff(),
                None if timeout is None else _check_timeout(timeout),
            )
        )

    def include(self, others: Handlers) -> None:
        """Register all handlers of another collection too, none of them if one of its names is taken."""
        for handler in others:
            self._check_free(handler.name)
        self._handlers.update(others._handlers)

    def _put(self, handler: Handler) -> None:
        self._check_free(handler.name)
        self._handlers[handler.name] = handler

    def _check_free(self, name: str) -> None:
        if name in self._handlers:
            raise ValueError(f"there is a handler for {name!r} already: {self._handlers[name].function!r}")

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._handlers)

    def copy(self) -> Handlers:
        """Return what is registered now; later registrations don't touch it."""
        copied = Handlers()
        copied._handlers.update(self._handlers)
        return copied

    def __getitem__(self, name: str) -> Handler:
        return self._handlers[name]

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def __len__(self) -> int:
        return len(self._handlers)


def _check_timeout(value: object) -> float | None:
    seconds = check_number("timeout", value)
    if seconds <= 0:
        raise ValueError(f"a handler's timeout must be more than 0 seconds, or None for no limit; got {value!r}")
    return None if math.isinf(seconds) else seconds
