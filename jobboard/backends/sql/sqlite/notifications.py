"""Notifying other processes after a commit, by a FIFO beside the file that carries no data.

Linux reports a hang-up to everyone who has a FIFO open for reading, as soon as its last writer closes it. So one who
opens and closes it wakes all who wait, whoever they are, and nobody has to be registered. All of this is a hint: a
reader that misses one finds the commit by polling.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

FLAGS = os.O_NONBLOCK | os.O_NOFOLLOW


def _path_of(file: Path) -> str:
    return f"{os.path.realpath(file)}-notify"


class NotificationSender:
    """Wakes the readers of one file's notifications."""

    def __init__(self, file: Path) -> None:
        self._path = _path_of(file)

    def send(self) -> None:
        """Wake them. It takes some microseconds, waits for nobody and never fails.

        The process must not fork meanwhile: a child that has the FIFO open for writing would keep it from hanging up.
        """
        with contextlib.suppress(OSError):
            os.close(os.open(self._path, os.O_WRONLY | FLAGS))


class NotificationReader:
    """Has the FIFO open, for one thread; the last one to close it deletes it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._path = _path_of(file)
        self._fd: int | None = None

    def renew(self) -> int | None:
        """Return what hangs up after the next notification; None if there can be none.

        What is committed by now may not be notified any more.
        """
        before, self._fd = self._fd, self._open()
        _close(before)
        return self._fd

    def close(self) -> None:
        _close(self._fd)
        if self._fd is None:
            return
        try:
            os.close(os.open(self._path, os.O_WRONLY | FLAGS))
        except OSError:
            # Nobody has it open any more. A reader that opens it just now renews it soon.
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self._fd = None

    def _open(self) -> int | None:
        # Elsewhere a FIFO without writers may have hung up from the beginning.
        if sys.platform != "linux":
            return None
        try:
            if not os.path.lexists(self._path):
                with contextlib.suppress(FileExistsError):
                    os.mkfifo(self._path, 0o600)
                    return share(self._open_existing(), self._file, lambda mode: mode & 0o666)
            return self._open_existing()
        except OSError:
            # The directory can't be written to, or another user's FIFO can't be read.
            return None

    def _open_existing(self) -> int:
        fd = os.open(self._path, os.O_RDONLY | FLAGS)
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.close(fd)
            raise FileExistsError(self._path)
        return fd


def _close(fd: int | None) -> None:
    if fd is not None:
        os.close(fd)


def share(fd: int, file: Path, mode_of: Callable[[int], int]) -> int:
    """Give what lies beside the file the same owner, and those permissions that follow from the file's."""
    with contextlib.suppress(OSError):
        found = os.stat(file)
        os.fchmod(fd, mode_of(found.st_mode))
        os.fchown(fd, found.st_uid if os.geteuid() == 0 else -1, found.st_gid)
    return fd
