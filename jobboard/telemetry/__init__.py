"""What this process does with its boards, handed to recorders of metrics and traces; there are none by default."""

from __future__ import annotations

import contextlib
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

from jobboard.interrupts import is_of_signal_handler

__all__ = ["Recorder", "RunningJob", "add"]

#: Bytes of the names and values of a trace; a ``traceparent`` has 55.
MAX_TRACE = 512

logger = logging.getLogger("jobboard.telemetry")


class RunningJob(Protocol):
    """What a recorder may read of a job that runs; nothing of it asks the store."""

    @property
    def board_name(self) -> str: ...
    @property
    def uuid(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def attempts(self) -> int: ...
    @property
    def trace(self) -> dict[str, str]: ...


class Recorder:
    """Override the methods that you need, and pass an object to :func:`add`.

    They are called in the thread that does the work, so they have to return at once. What they raise is logged, and
    harms no job. Times are in seconds.
    """

    def trace_of_post(self, board: str, name: str) -> dict[str, str]:
        """Return what travels with a job that is about to be posted, such as ``{"traceparent": ...}``.

        Its handler's recorder reads it as ``job.trace``. It is dropped if it takes over 512 bytes.
        """
        return {}

    def posted(self, board: str, name: str, outcome: str) -> None:
        """A job was posted. ``outcome``: ``posted``, ``same``, ``kept`` or ``replaced``.

        What is posted in a transaction of the user's counts although that may be rolled back.
        """

    def claimed(self, board: str, name: str, waited: float | None) -> None:
        """A job was claimed; ``waited``: for how long it could be claimed; None after its first attempt.

        The time for which its lane blocked it does not count.
        """

    def started(self, job: RunningJob) -> None:
        """A conductor begins to run a job."""

    def picked_up(self, job: RunningJob, seconds: float) -> None:
        """A conductor begins the first attempt of a job, this many seconds after it could be claimed."""

    def ended(self, job: RunningJob, outcome: str, seconds: float) -> None:
        """A conductor has sent the end of a claim.

        :param outcome: ``consumed``; ``failed`` (it runs again); ``trashed``; ``again`` (its handler asked for it);
            ``returned`` (it goes back uncounted, or is cancelled); ``lost`` (the claim did not hold, nothing was sent).
        :param seconds: how long the handler ran; 0 if it never began.
        """

    def stepped(self, job: RunningJob, step: str, seconds: float) -> None:
        """A step of a job was recorded; those of the library begin with a colon, such as ``:sleep``.

        :param seconds: how long the step's function ran; 0 for a sleep or a wait.
        """

    def signalled(self, board: str, signal: str, outcome: str) -> None:
        """A signal was sent to a job. ``outcome``: ``done``, ``repeated`` or ``missing`` (no such job)."""

    def fired(self, board: str, schedule_id: str, jobs: int, late: float) -> None:
        """A schedule's step was taken: it posted this many jobs; ``late``: seconds after the step was due."""

    def requested(self, board: str, operation: str, outcome: str, seconds: float, size: int | None) -> None:
        """A board has sent a request to its store.

        :param operation: a primitive of the backend, such as ``claim_next``, or of a role, such as ``schedules.due``.
        :param outcome: ``answered``; ``refused`` (nothing was changed); ``unavailable``; ``reply_lost`` (it may have
            had an effect, and is sent again).
        :param size: how many answers a batch got: for ``claim_next``, jobs; None if it is no batch, or failed.
        """

    def around(self, job: RunningJob) -> AbstractContextManager[object]:
        """Return a context in which the handler runs, in its own thread, task or worker process."""
        return contextlib.nullcontext()


#: Replaced as a whole, so that readers need no lock.
_recorders: tuple[Recorder, ...] = ()
#: The methods that recorders override, by their names: a method that no recorder overrides costs nothing.
_hooks: dict[str, tuple[Callable[..., Any], ...]] = {}
_lock = threading.Lock()


def add(recorder: Recorder) -> Callable[[], None]:
    """Call a recorder for everything that happens from now on, in this process; there may be several.

    Worker processes of the process executor import the handlers' module and nothing else: what should be around
    handlers there is added by that module.

    :returns: a function that removes it; idempotent.
    :raises TypeError: it is no :class:`Recorder`.
    """
    if not isinstance(recorder, Recorder):
        raise TypeError(f"a recorder must be a jobboard.telemetry.Recorder, not {type(recorder).__name__}")
    with _lock:
        _set((*_recorders, recorder))

    def remove() -> None:
        with _lock:
            _set(tuple(other for other in _recorders if other is not recorder))

    return remove


def _set(recorders: tuple[Recorder, ...]) -> None:
    global _recorders, _hooks
    hooks = [name for name in vars(Recorder) if not name.startswith("_")]
    _hooks = {
        hook: tuple(
            getattr(recorder, hook)
            for recorder in recorders
            if getattr(type(recorder), hook) is not getattr(Recorder, hook)
        )
        for hook in hooks
    }
    _recorders = recorders


def is_on() -> bool:
    """Return whether there is a recorder: otherwise nothing needs to be gathered."""
    return bool(_recorders)


def is_recorded(hook: str) -> bool:
    """Return whether a recorder overrides this method."""
    return bool(_hooks.get(hook))


def emit(hook: str, *arguments: object) -> None:
    """Call a method of every recorder."""
    for method in _hooks.get(hook, ()):
        try:
            method(*arguments)
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            logger.exception("a recorder failed in %s", hook)


def trace_of_post(board: str, name: str) -> dict[str, str] | None:
    """Return what all recorders want to travel with a job; None for nothing."""
    trace: dict[str, str] = {}
    for trace_of in _hooks.get("trace_of_post", ()):
        try:
            trace.update(trace_of(board, name))
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            logger.exception("a recorder failed in trace_of_post")
    texts = [text for item in trace.items() for text in item]
    if not all(isinstance(text, str) for text in texts) or sum(len(text.encode()) for text in texts) > MAX_TRACE:
        logger.warning("a trace of over %d bytes, or not of texts, is dropped", MAX_TRACE)
        return None
    return trace or None


def call_handler(function: Callable[[Any], Any], job: RunningJob) -> Any:
    """Call a handler inside the contexts of all recorders; returns a coroutine if the handler is ``async``."""
    if not _hooks.get("around"):
        return function(job)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        return _await_handler(function, job)
    with _contexts(job):
        return function(job)


async def _await_handler(function: Callable[[Any], Coroutine[Any, Any, Any]], job: RunningJob) -> Any:
    with _contexts(job):
        return await function(job)


@contextlib.contextmanager
def _contexts(job: RunningJob) -> Iterator[None]:
    with ExitStack() as stack:
        for around in _hooks.get("around", ()):
            try:
                stack.enter_context(_Harmless(around(job)))
            except Exception as error:
                if is_of_signal_handler(error):
                    raise
                logger.exception("a recorder failed around a job")
        yield


class _Harmless(AbstractContextManager[None]):
    """A recorder's context: its own errors are logged, and it can't swallow the handler's."""

    def __init__(self, context: AbstractContextManager[object]) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._context.__enter__()

    def __exit__(self, *raised: Any) -> None:
        try:
            self._context.__exit__(*raised)
        except BaseException as error:
            if error is raised[1]:
                return
            if not isinstance(error, Exception) or is_of_signal_handler(error):
                raise
            logger.exception("a recorder failed after a job")
