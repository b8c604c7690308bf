"""A backend whose replies can be lost on the way; it stands at the seam, on any real backend."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Literal, TypeVar

from jobboard.backends.base import Backend, Waiter
from jobboard.backends.roles import ROLES, forward_roles, name_of
from jobboard.backends.rows import Abandonment, Consumption, Extension, JobRow, Trashing
from jobboard.backends.schedule_rows import ScheduleStep
from jobboard.errors import BoardUnavailable, ReplyLost
from jobboard.events import EventKind, JobEvent

_Reply = TypeVar("_Reply")

#: Where the connection breaks: the request never arrives, its reply never does, or nothing can be sent at all.
Fault = Literal["request", "reply", "refused"]

_WHEN = {"request": "before the request arrived", "reply": "after the request had arrived"}

#: The jobs, the error and the primitives.
_Refused = tuple[frozenset[str], type[BoardUnavailable], frozenset[str]]
_NOTHING: _Refused = (frozenset(), BoardUnavailable, frozenset())


class LossyBackend(Backend):
    """Hands everything on to ``inner``, counts it in :attr:`calls`, and breaks the connection when told to.

    :meth:`lose` arms it for one primitive: ``"reply"`` lets the request take effect and raises
    :class:`~jobboard.errors.ReplyLost`; ``"request"`` raises the same, but nothing took effect; ``"refused"`` raises
    :class:`~jobboard.errors.BoardUnavailable`.
    """

    scheme = "lossy"

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner.board, inner.address)
        self.scheme = inner.scheme  # type: ignore[misc]
        self.capabilities = inner.capabilities  # type: ignore[misc]
        self.options = inner.options  # type: ignore[misc]
        self.inner = inner
        self.calls: Counter[str] = Counter()
        #: The calls that returned, faults aside.
        self.answered: Counter[str] = Counter()
        #: How many jobs were read by pages.
        self.rows = 0
        #: Set while somebody blocks in a waiter.
        self.blocked = threading.Event()
        self._refused: _Refused = _NOTHING
        #: What meets the next calls of a primitive; None lets one through.
        self._armed: dict[str, list[tuple[Fault, Callable[[], object]] | None]] = {}
        forward_roles(self, self._send_to)

    def exists(self, timeout: float) -> bool | None:
        return self.inner.exists(timeout)

    def boards(self, timeout: float) -> list[str] | None:
        return self.inner.boards(timeout)

    def lose(
        self,
        primitive: str,
        fault: Fault = "reply",
        times: int = 1,
        meanwhile: Callable[[], object] = lambda: None,
        after: int = 0,
    ) -> None:
        """Break the next ``times`` calls of ``primitive``, such as ``"post"`` or ``"schedules.step"``.

        :param after: how many calls get through before.
        :param meanwhile: what others do between the break and the next try.
        """
        of_roles = {name_of(role, method) for role, kind in ROLES.items() for method in kind.__abstractmethods__}
        if primitive not in of_roles and not hasattr(Backend, primitive):
            raise LookupError(f"no such primitive: {primitive!r}")
        self._armed.setdefault(primitive, []).extend([None] * after + [(fault, meanwhile)] * times)

    def refuse(
        self,
        uuids: Collection[str],
        error: type[BoardUnavailable] = BoardUnavailable,
        primitives: Collection[str] = ("consume", "abandon", "trash"),
    ) -> None:
        """Until :meth:`heal`, raise this error for each request of these primitives that is about one of these jobs.

        Of ``"schedules.step"`` it is the ids of schedules.
        """
        self._refused = frozenset(uuids), error, frozenset(primitives)

    def heal(self) -> None:
        """Break nothing more."""
        self._armed.clear()
        self._refused = _NOTHING

    @property
    def armed(self) -> bool:
        """Whether a fault waits that nothing has met yet."""
        return any(self._armed.values())

    def _send(self, primitive: str, request: Callable[[], _Reply]) -> _Reply:
        self.calls[primitive] += 1
        faults = self._armed.get(primitive)
        armed = faults.pop(0) if faults else None
        if armed is None:
            reply = request()
            self.answered[primitive] += 1
            return reply
        fault, meanwhile = armed
        if fault == "reply":
            request()
        meanwhile()
        if fault == "refused":
            raise BoardUnavailable(f"{primitive}: refused")
        raise ReplyLost(f"{primitive}: the connection broke {_WHEN[fault]}")

    def _send_to(self, role: str, method: str, *arguments: Any, **options: Any) -> Any:
        primitive = name_of(role, method)
        refused, error, primitives = self._refused
        if primitive in primitives and not refused.isdisjoint(map(_id_of, arguments[0])):
            self.calls[primitive] += 1
            raise error(f"{primitive}: refused for one of these jobs")
        reply = self._send(primitive, lambda: getattr(getattr(self.inner, role), method)(*arguments, **options))
        if primitive in ("page", "claimable"):
            self.rows += len(reply.rows)
        return reply

    def open(self, timeout: float) -> None:
        self._send("open", lambda: self.inner.open(timeout))

    def close(self) -> None:
        self.inner.close()

    @property
    def connected(self) -> bool:
        return self.inner.connected

    def now(self) -> float:
        return self._send("now", self.inner.now)

    def seconds_until(self, moment: float) -> float:
        return self._send("now", lambda: self.inner.seconds_until(moment))

    def refresh(self) -> None:
        self._send("refresh", self.inner.refresh)

    def new_uuid(self, name: str, key: str | None = None, lane: str | None = None, beside: str | None = None) -> str:
        return self.inner.new_uuid(name, key, lane, beside)

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        return self._send("waiter", lambda: _WatchedWaiter(self.inner.waiter(names), self))

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        return self._send("listen", lambda: self.inner.listen(tell, kinds))


def _id_of(item: Extension | Consumption | Abandonment | Trashing | ScheduleStep) -> str:
    if isinstance(item, ScheduleStep):
        return item.id
    return item.uuid if isinstance(item, Trashing) else item.fence.uuid


class _WatchedWaiter(Waiter):
    """Says when somebody is about to block, so that a test can act just then."""

    def __init__(self, inner: Waiter, backend: LossyBackend) -> None:
        self._inner = inner
        self._backend = backend

    def ready_in(self) -> float | None:
        self._backend.calls["ready_in"] += 1
        return self._inner.ready_in()

    def claim_ahead(self, who: str, expiry: float) -> None:
        self._inner.claim_ahead(who, expiry)

    def claimed(self) -> tuple[list[JobRow], float]:
        return self._inner.claimed()

    def wait(self, timeout: float | None) -> None:
        self._backend.blocked.set()
        self._inner.wait(timeout)

    def interrupt(self) -> None:
        self._inner.interrupt()

    def close(self) -> None:
        self._inner.close()
