"""SIGTERM, SIGINT, SIGHUP and SIGUSR1 for programs that run conductors."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from jobboard.stop_signals import StopSignals

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Handle = Callable[[int, FrameType | None], object]

#: What handles signals here, and not in children that are forked: those shall end as a program does by default.
_not_in_children: set[object] = set()


def not_in_children(handle: Handle) -> Handle:
    """Return the signal handler; a child that is forked while it is installed gets Python's default instead."""
    _not_in_children.add(handle)
    return handle


def ignore(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal, in this process only: what SIG_IGN does, the programs inherit that a handler starts."""


#: Those that wait, in the thread that forks, until the child has its own handling of them: it would miss what comes
#: before. Not SIGINT, whose KeyboardInterrupt would be raised in a hook of the fork, and lost there.
_HELD_BACK = (signal.SIGTERM, signal.SIGHUP)
_forking = threading.local()


def _hold_back() -> None:
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)


def _let_through() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _restore_in_child() -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) in _not_in_children:
            # It can't be set in an interpreter that is not the main one.
            with suppress(ValueError):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _let_through()


os.register_at_fork(before=_hold_back, after_in_parent=_let_through, after_in_child=_restore_in_child)


@contextmanager
def stop_on_signals(stop: Callable[[], object], report: Callable[[], object] | None = None) -> Iterator[None]:
    """Inside the block, call ``stop`` in a thread at the first SIGTERM, SIGINT or SIGHUP, and exit at the second.

    Only for the main thread. The exit at the second signal is immediate, with the status 128 + the signal's number:
    claims expire, and worker processes end with their conductor. In a child that is forked inside the block, signals do
    what they do by default. A SIGHUP never exits at once, since a terminal that
    closes may send several, nor does a SIGTERM within half a second of the first one, since ``timeout`` sends two; one
    that is ignored (``nohup``) stays ignored.

    :param stop: a thread calls it, since a signal handler must not wait for locks that the main thread may hold.
    :param report: is called in a thread at each SIGUSR1; None does nothing.
    :raises ValueError: this is not the main thread.
    """
    signals = StopSignals()

    def handle(number: int, _frame: FrameType | None) -> None:
        # Before it is added: a further signal may interrupt this, and to stop twice is harmless.
        is_first = not signals.seen
        if signals.add(number):
            os._exit(128 + number)
        if is_first:
            threading.Thread(target=stop, name="jobboard-stop", daemon=True).start()

    def on_user_signal(_number: int, _frame: FrameType | None) -> None:
        if report is not None:
            threading.Thread(target=report, name="jobboard-report", daemon=True).start()

    numbers = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, not_in_children(handle)) for number in numbers}
    before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, on_user_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _not_in_children.discard(handle)
