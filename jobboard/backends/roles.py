"""The roles of a backend: parts of the seam that are objects of their own. The rules of the seam hold for them too."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from jobboard.backends.rows import (
    AuditFinding,
    BookPage,
    BookPart,
    BookSave,
    DueSchedules,
    EntityRow,
    Holder,
    Pause,
    SaveOutcome,
    SchedulePage,
    ScheduleRow,
    ScheduleStep,
    Verdict,
)


class ScheduleStore(abc.ABC):
    """The schedules of a board."""

    @abc.abstractmethod
    def step(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        """Take each step, atomically with its postings and events: DONE, REPEATED or LOST.

        LOST: the stored version is not ``after``, and nothing was changed. A repeat finds its own version (or, for a
        deletion, no schedule), posts nothing and tells nothing: REPEATED.
        """

    @abc.abstractmethod
    def read(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        """Return schedules by id; None for those that there are not."""

    @abc.abstractmethod
    def due(self, limit: int) -> DueSchedules:
        """Return up to ``limit`` schedules whose ``next_at`` has come by the store's clock.

        One request, which does not read what is not due, whatever the number of schedules.
        """

    @abc.abstractmethod
    def page(self, cursor: object | None, size: int) -> SchedulePage:
        """Return the next schedules, beginning where ``cursor`` says; None is the head.

        A schedule that stays as it is throughout an iteration is seen exactly once.
        """


class EntityStore(abc.ABC):
    """The participants of a board."""

    @abc.abstractmethod
    def put(self, entity: EntityRow, orders: str | None = None) -> bool:
        """Write a participant down as seen now; idempotent.

        Return whether the board may have the logbook ``orders``: False if the same request tells that it has not.
        """

    @abc.abstractmethod
    def remove(self, kind: str, name: str) -> None:
        """Forget a participant; idempotent."""

    @abc.abstractmethod
    def all(self) -> list[EntityRow]:
        """Return all participants, also those gone, until :meth:`Maintenance.tidy` forgets them a day later."""


class BookStore(abc.ABC):
    """The logbooks of a board: each has a version, a body, and entries by name, which are stored one by one."""

    @abc.abstractmethod
    def save(self, step: BookSave) -> SaveOutcome:
        """Take a book's step, with all of its entries and under its fence, atomically: SAVED, STALE or LOST.

        A new book has no entries but those of its first step. A repeat finds its own ``version``, and is SAVED, also
        if the claim has ended since.
        """

    @abc.abstractmethod
    def load(self, uuid: str, cursor: str | None, size: int) -> BookPart | None:
        """Return a book and up to ``size`` of its entries, beginning where ``cursor`` says (None: the head).

        None: there is no book. What one part shows is of one moment; a change in between shows in the version.
        """

    @abc.abstractmethod
    def page(self, cursor: object | None, size: int) -> BookPage:
        """Return about ``size`` books, beginning where ``cursor`` says; None is the head.

        What stays throughout an iteration is seen; on some stores it may be seen twice.
        """

    @abc.abstractmethod
    def destroy(self, uuid: str) -> bool:
        """Delete a book with its entries; False if there is none."""


class Maintenance(abc.ABC):
    """What operators and housekeeping do to a whole board."""

    @abc.abstractmethod
    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        """Grant no more claims of this name (None: of any job) until resumed; the event says by whom, and why.

        Idempotent: a pause of what is paused changes and tells nothing, so that the first one's ``by``, ``reason`` and
        moment stay.
        """

    @abc.abstractmethod
    def resume(self, name: str | None) -> None:
        """Undo exactly that pause; idempotent; wakes who waits."""

    @abc.abstractmethod
    def paused(self) -> frozenset[str | None]:
        """Return the paused names, and None among them if the whole board is paused."""

    @abc.abstractmethod
    def pauses(self) -> list[Pause]:
        """Return the same with by whom, when and why each was paused, in any order; claims never ask for it."""

    @abc.abstractmethod
    def tidy(self, limit: int) -> int:
        """Delete up to ``limit`` things that nobody can see any more, and return how many it were; idempotent."""

    @abc.abstractmethod
    def audit(self, repair: bool) -> list[AuditFinding]:
        """Look for records that contradict each other, and mend each atomically if told to."""

    @abc.abstractmethod
    def holders(self) -> list[Holder]:
        """Return what keeps the store from deleting old rows, as far as this login may know; the oldest first.

        [] without a request where nothing can.
        """

    @abc.abstractmethod
    def server_version(self) -> str:
        """Return the store and its version, such as ``Redis 7.0.15``; without it if the server does not tell."""


#: The attributes of a backend that hold its roles.
ROLES: Mapping[str, type[abc.ABC]] = {
    "schedules": ScheduleStore,
    "entities": EntityStore,
    "books": BookStore,
    "maintenance": Maintenance,
}


def forward_roles(backend: object, call: Callable[..., Any]) -> None:
    """Give a backend roles of which each method is ``call(role, method, *arguments)``, both by name."""
    for name, role in ROLES.items():
        methods = {method: _forwarding(method, partial(call, name, method)) for method in role.__abstractmethods__}
        setattr(backend, name, type(role.__name__, (role,), methods)())


def _forwarding(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def forward(_self: object, *arguments: Any) -> Any:
        return call(*arguments)

    forward.__name__ = name
    return forward


def check_roles(backend: object) -> None:
    """Check that a backend has all of its roles.

    :raises TypeError: one is missing, or something else is in its place.
    """
    for name, role in ROLES.items():
        if not isinstance(getattr(backend, name, None), role):
            kind = type(backend).__name__
            raise TypeError(f"{kind}.{name} must be a {role.__name__} of {__name__}; set it in the constructor")
