"""What a signal's handler raises, at any point of a call."""

from __future__ import annotations

import _weakrefset
import gc
import sys
import weakref
from collections.abc import Callable
from types import FrameType

#: What callbacks of weak references raise reaches nobody.
_CALLBACKS = {weakref.__file__, _weakrefset.__file__}


def interrupted_after(
    step: int, act: Callable[[], object], within: str = "", error: type[BaseException] = KeyboardInterrupt
) -> bool:
    """Act, and be interrupted at one of the points where Python runs signals' handlers.

    :param step: this many calls of C functions have ended, or calls of Python's functions begun.
    :param within: counts only those in modules whose path ends so.
    :param error: what the handler raises.
    :returns: False if it ended before.
    """
    steps = 0

    def count(frame: FrameType, event: str, _function: object) -> None:
        nonlocal steps
        path = frame.f_code.co_filename
        steps += event in ("c_return", "call") and path.endswith(within) and path not in _CALLBACKS
        if steps == step:
            sys.setprofile(None)
            raise error

    # Callbacks of the collector run whenever it likes, too.
    is_collecting = gc.isenabled()
    gc.disable()
    sys.setprofile(count)
    try:
        act()
    except error:
        return True
    finally:
        sys.setprofile(None)
        if is_collecting:
            gc.enable()
    return False
