"""The handlers that a conductor may run: only what was registered here is ever called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from jobboard.arguments import check_count, check_expiry, check_text
from jobboard.conductor.backoff import Backoff

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Handler:
    """One handler and its rules."""

    name: str
    function: Callable[..., Any]
    max_attempts: int
    backoff: Backoff
    timeout: float | None


class Handlers:
    """Maps job names to functions; a job whose name isn't here is left to other conductors."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def handler(
        self,
        name: str,
        *,
        max_attempts: int = 5,
        backoff: Backoff | None = None,
        timeout: float | None = None,
    ) -> Callable[[Function], Function]:
        """Register the decorated function, plain or ``async``, for jobs of this name; it takes the job.

        :param max_attempts: after so many failures the job goes to the trash; the posting's own number wins.
        :param backoff: the wait between attempts; :class:`Backoff` with its defaults if None.
        :param timeout: seconds after which a run counts as failed; None for no limit.
        """

        def register(function: Function) -> Function:
            self.add(name, function, max_attempts=max_attempts, backoff=backoff, timeout=timeout)
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
        if name in self._handlers:
            raise ValueError(f"there is a handler for {name!r} already: {self._handlers[name].function!r}")
        if backoff is not None and not isinstance(backoff, Backoff):
            raise TypeError(f"backoff must be a Backoff, not {type(backoff).__name__}")
        self._handlers[name] = Handler(
            name,
            function,
            check_count("max_attempts", max_attempts),
            backoff or Backoff(),
            None if timeout is None else check_expiry(timeout),
        )

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._handlers)

    def __getitem__(self, name: str) -> Handler:
        return self._handlers[name]

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def __len__(self) -> int:
        return len(self._handlers)
