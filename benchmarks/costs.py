"""What a process and those that it started cost: CPU, memory, and the disk below a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_SECOND = 100


def cpu_of(server: int) -> float:
    """Return the seconds of CPU that a process has had, and its children, also those that have ended."""
    ticks = 0
    for folder, fields in _family(server):
        # Those of its own, and of the server those of its ended children too.
        ticks += sum(map(int, fields[11 : 15 if folder.name == str(server) else 13]))
    return ticks / _TICKS_PER_SECOND


def memory_of(server: int) -> float:
    """Return the bytes that a process and its children hold; what several share counts once."""
    held = 0
    for folder, _ in _family(server):
        try:
            lines = (folder / "smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        held += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return held


def disk_of(folder: Path) -> float:
    """Return the bytes of all files below a folder."""
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_blocks * 512 if path.is_file() else 0
        except FileNotFoundError:
            continue
    return size


def _family(server: int) -> Iterator[tuple[Path, list[str]]]:
    """Iterate over the folders of a process and its children in ``/proc``, and what their ``stat`` says of each."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(folder.name) == server or int(fields[1]) == server:
                yield folder, fields
