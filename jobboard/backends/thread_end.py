"""How the end of a background thread is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable


def wait_for_thread(thread: threading.Thread | None, seconds: float) -> None:
    """Wait until a thread has ended, at most this many seconds: unless it never began, or is the caller's own."""
    if thread is not None and thread.is_alive() and thread is not threading.current_thread():
        thread.join(seconds)


def call_in_thread(name: str, function: Callable[[], object], seconds: float) -> None:
    """Call a function in a thread of its own, and wait for its end, at most ``seconds``."""
    thread = threading.Thread(target=function, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # The interpreter is exiting, and starts no more threads.
        function()
    else:
        thread.join(seconds)
