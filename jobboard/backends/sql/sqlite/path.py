"""What must hold of a path before SQLite opens or makes a file there, which would destroy jobs otherwise."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path

from jobboard.errors import BoardUnavailable

#: Linux lists all mounts here, one a line. The fifth field is where; octal numbers stand for blanks.
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(rb"\\([0-7]{3})")


def check_directory(path: Path) -> None:
    """Refuse a path whose directory is not there."""
    if not path.parent.is_dir():
        raise BoardUnavailable(f"there is no directory {path.parent}; create it first")


def check_file(path: Path) -> None:
    """Refuse a file that has several names, or a log of changes that belongs to another one.

    SQLite keeps a log beside each name of a file, and one overwrites the other. A log beside a new file it deletes.
    """
    _check_log(os.path.realpath(path))
    _check_links(path)
    _check_mount(os.path.realpath(path))


def _check_log(path: str) -> None:
    # In this order: where two processes make a file at the same time, there is no log before the file has its first
    # page.
    if _size(f"{path}-wal") and not _size(path):
        raise BoardUnavailable(
            f"{path} is not there, or empty, and {path}-wal has changes of the file that was there, which a new file "
            f"would destroy; move that file back, or remove {path}-wal if the file is gone for good"
        )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _check_links(path: Path) -> None:
    with contextlib.suppress(OSError):
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            raise BoardUnavailable(
                f"{path} has {found.st_nlink} names (hard links), and what is posted under one would be lost under "
                "another; remove all names but one, or make symbolic links of them"
            )


def _check_mount(path: str) -> None:
    try:
        mounts = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return
    points = (_OCTAL.sub(lambda octal: bytes([int(octal[1], 8)]), mount.split(b" ")[4]) for mount in mounts)
    if os.fsencode(path) in points:
        raise BoardUnavailable(
            f"{path} is mounted by itself, and what is posted here would be lost under its other name; "
            "mount its folder instead"
        )
