"""How a job is named to people: by its name and key."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobboard.backends.rows import JobRow


def label_of(name: str, key: str | None) -> str:
    """Return ``NAME``, or ``NAME:KEY`` of a job that has a key: ``fetch:2027-01-31``."""
    return name if key is None else f"{name}:{key}"


def named(row: JobRow) -> str:
    """Return ``job UUID (NAME:KEY)``."""
    return f"job {row.uuid} ({label_of(row.name, row.key)})"
