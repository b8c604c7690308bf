"""How a job is named to people: by its name and key."""

from __future__ import annotations

from typing import Protocol


class HasKey(Protocol):
    """What has a job's uuid, name and key: its handle, its row, or what was selected of it."""

    @property
    def uuid(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str | None: ...


def label_of(name: str, key: str | None) -> str:
    """Return ``NAME``, or ``NAME:KEY`` of a job that has a key: ``fetch:2027-01-31``."""
    return name if key is None else f"{name}:{key}"


def named(job: HasKey) -> str:
    """Return ``job UUID (NAME:KEY)``."""
    return f"job {job.uuid} ({label_of(job.name, job.key)})"
