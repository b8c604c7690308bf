"""Stops (SIGSTOP) processes where no other one suffers from it."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing, nullcontext

from servers.base import wait_until_stopped


def stop_between_writes(pid: int, uri: str) -> None:
    """SIGSTOP a process, but not while it has SQLite's write lock, which would then be kept from everybody."""
    file = uri.removeprefix("sqlite:///")
    with nullcontext() if file == uri else closing(sqlite3.connect(file, timeout=60)) as holder:
        if holder is not None:
            holder.execute("BEGIN IMMEDIATE")
        os.kill(pid, signal.SIGSTOP)
        wait_until_stopped(pid)
