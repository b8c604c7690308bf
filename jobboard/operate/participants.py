"""What conductors tell of themselves when they register, read with care: any program may have written it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobboard.entity import Entity


def names_of(entity: Entity, which: str = "names") -> set[str]:
    """Return a set of job names from the metadata: those with a handler, ``"refused"`` or ``"stuck_names"``."""
    names = entity.metadata.get(which)
    return {name for name in names if isinstance(name, str)} if isinstance(names, (list, tuple)) else set()


def number_of(entity: Entity, what: str) -> int:
    """Return a number from the metadata, such as ``"stuck"``; 0 if it is none."""
    number = entity.metadata.get(what)
    return number if isinstance(number, int) else 0


def handles(entity: Entity, name: str) -> bool:
    """Whether it is a conductor with a handler for jobs of this name."""
    return entity.kind == "conductor" and name in names_of(entity)


def is_quiet(entity: Entity) -> bool:
    """Whether an operator has told it to claim no more, and it does so."""
    return entity.metadata.get("quiet") is True


def claims(entity: Entity, name: str) -> bool:
    """Whether it is a conductor that is alive and claims jobs of this name now."""
    is_willing = entity.alive and not is_quiet(entity)
    return is_willing and handles(entity, name) and name not in names_of(entity, "refused")
