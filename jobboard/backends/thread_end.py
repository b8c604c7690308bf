"""How the end of a background thread is waited for."""

from __future__ import annotations

import threading


def wait_for_thread(thread: threading.Thread | None, seconds: float) -> None:
    """Wait until a thread has ended, at most this many seconds: unless it never began, or is the caller's own."""
    if thread is not None and thread.is_alive() and thread is not threading.current_thread():
        thread.join(seconds)
