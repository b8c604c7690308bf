"""Signals: how long a main thread may wait without hearing of one, and what one's handler raised."""

from __future__ import annotations

import signal
import traceback
from functools import partial
from types import CodeType

#: Seconds after which a waiting main thread runs again. Python runs signal handlers in that thread only, and a signal
#: that another thread got (as happens after a SIGCONT) does not wake it.
SIGNAL_POLL = 0.5


def is_of_signal_handler(error: BaseException) -> bool:
    """Whether the handler of a signal raised this: then nothing is known of the code that it interrupted."""
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: object) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    if not hasattr(handler, "__code__"):
        # An object that can be called.
        handler = getattr(type(handler), "__call__", None)  # noqa: B004
    return getattr(handler, "__code__", None)
