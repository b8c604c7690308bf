"""How long SQLite's write-ahead log is: it only grows while another connection reads an old state of the file."""

from __future__ import annotations

from pathlib import Path

#: After so many pages what the log has is written into the file, and it begins anew, unless somebody reads what was.
CHECKPOINT_PAGES, PAGE_SIZE = 4000, 2048
#: To how many bytes the log is cut once it begins anew.
LOG_SIZE = 2 * CHECKPOINT_PAGES * PAGE_SIZE
#: How many bytes it may have before anybody is told.
_ENOUGH = 128 * 1024**2
_MIB = 1024**2


def shortages_of(path: Path) -> list[str]:
    """Return what is to be said of the log of a file, if it has grown far beyond what it needs."""
    log = Path(f"{path}-wal")
    try:
        size = log.stat().st_size
    except OSError:
        return []
    if size < _ENOUGH:
        return []
    grown = f"{log} has grown to {size // _MIB} MiB and goes on, since a program has been reading {path.name} for long"
    return [f"{grown} (a backup, an open query): end that reading; 'fuser {path}' names all that have the file open"]
