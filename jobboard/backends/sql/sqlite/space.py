"""Whether SQLite has room: how long its write-ahead log is, which only grows while somebody reads, and its disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from jobboard.backends.findings import Shortage

#: After so many pages what the log has is written into the file, and it begins anew, unless somebody reads what was.
CHECKPOINT_PAGES, PAGE_SIZE = 4000, 2048
#: To how many bytes the log is cut once it begins anew.
LOG_SIZE = 2 * CHECKPOINT_PAGES * PAGE_SIZE
#: How many bytes it may have before anybody is told.
_ENOUGH = 128 * 1024**2
#: A disk is nearly full with less than this part of it and less than this many bytes left.
_LEAST_PART, _LEAST_BYTES = 0.05, 1024**3
_MIB = 1024**2


def shortages_of(path: Path) -> list[Shortage]:
    """Return what is to be said of the log of a file, if it has grown far beyond what it needs, and of its disk."""
    return [*_of_log(path), *_of_disk(path)]


def _of_log(path: Path) -> Iterator[Shortage]:
    log = Path(f"{path}-wal")
    try:
        size = log.stat().st_size
    except OSError:
        return
    if size >= _ENOUGH:
        cure = f"end that reading; 'fuser {path}' names all that have the file open"
        grown = f"{log} has grown to {size // _MIB} MiB and goes on, since a program has been reading {path.name}"
        yield Shortage(f"{grown} for long (a backup, an open query): {cure}")


def _of_disk(path: Path) -> Iterator[Shortage]:
    try:
        disk = shutil.disk_usage(path)
    except OSError:
        return
    if disk.free < min(_LEAST_PART * disk.total, _LEAST_BYTES):
        left = f"the disk of {path} has {disk.free // _MIB} of its {disk.total // _MIB} MiB left"
        yield Shortage(f"{left}, and once it has none nothing can be changed: make room on it")
