"""Conductors that keep work from being done: those that went away, and those whose slots one name has."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from jobboard.board import JobBoard, client_of
from jobboard.participants import Entity, began_at, claims, is_full, number_of, running_names, silence_of, stands_in_for
from jobboard.states import JobState

#: Of how many claimed jobs the owners are counted: one request.
MAX_CLAIMED_READ = 100


@dataclass(frozen=True, slots=True)
class GoneConductor:
    """A conductor that went away and did not stop in good order; those that stop are registered no more.

    :ivar silent: for how many seconds it has not been heard of.
    :ivar held: how many jobs it holds still, of the first :data:`MAX_CLAIMED_READ` that are claimed.
    :ivar ends_in: the seconds until the claims of these are over by themselves; infinity if one never is by time.
    :ivar entity: what it last told.
    :ivar is_replaced: whether another one with these handlers began since, and stands in for no other.
    :ivar has_more: whether more jobs are claimed than were read, so that it may hold more.
    """

    name: str
    silent: float
    held: int
    entity: Entity = field(compare=False)
    is_replaced: bool
    ends_in: float = 0.0
    has_more: bool = False


def gone_conductors(board: JobBoard, entities: Iterable[Entity], claimed: int, now: float) -> tuple[GoneConductor, ...]:
    """Return the conductors that went away within a day, the one that was seen last first.

    One request if there are any, and jobs are claimed.

    :raises BoardUnavailable: the store can't be reached.
    """
    conductors = [entity for entity in entities if entity.kind == "conductor"]
    seen = [(entity, entity.last_seen) for entity in conductors if not entity.alive and entity.last_seen is not None]
    if not seen:
        return ()
    client, held, ends = client_of(board), Counter[str | None](), dict[str | None, float]()
    if claimed:
        rows = client.call(client.backend.jobs.page, {JobState.CLAIMED}, None, None, MAX_CLAIMED_READ).rows
        held.update(row.owner for row in rows)
        for row in rows:
            left = math.inf if row.expires_at is None else max(0.0, row.expires_at - now)
            ends[row.owner] = max(left, ends.get(row.owner, 0.0))
    seen.sort(key=lambda one: (one[1], one[0].name), reverse=True)
    replaced = _replaced(seen, conductors)
    return tuple(
        GoneConductor(
            entity.name,
            silence_of(entity, now),
            held[entity.name],
            entity,
            entity.name in replaced,
            ends.get(entity.name, 0.0),
            claimed > MAX_CLAIMED_READ,
        )
        for entity, _ in seen
    )


def _replaced(gone: Sequence[tuple[Entity, datetime]], conductors: Iterable[Entity]) -> set[str]:
    """Return the names of those for which another one began; each stands in for one, also if it is gone by now."""
    began = [(at, entity.name, entity) for entity in conductors if (at := began_at(entity)) is not None]
    later = sorted(began, key=lambda one: one[:2])
    replaced = set()
    for entity, seen in gone:
        fitting = (one for one in later if one[0] >= seen and one[1] != entity.name and stands_in_for(one[2], entity))
        if (successor := next(fitting, None)) is not None:
            later.remove(successor)
            replaced.add(entity.name)
    return replaced


@dataclass(frozen=True, slots=True)
class FilledSlots:
    """A name that has all slots of the conductors that claim other names, too.

    :ivar slots: how many.
    :ivar conductors: of how many conductors.
    :ivar waiting: the other names.
    """

    name: str
    slots: int
    conductors: int
    waiting: tuple[str, ...]


def filled_slots(entities: Iterable[Entity], waiting: Iterable[str]) -> list[FilledSlots]:
    """Return the names that have the slots of all conductors which claim these names; two slots or more. No request.

    :param waiting: the names of jobs that wait.
    """
    alive = [entity for entity in entities if entity.alive and entity.kind == "conductor"]
    full = {entity.name: running_names(entity) for entity in alive if is_full(entity)}
    found: dict[str, tuple[set[str], list[str]]] = {}
    for name in waiting:
        able = [entity.name for entity in alive if claims(entity, name)]
        # None stands for one that has a free slot, or does not tell all that it runs.
        running = [full.get(one) for one in able]
        if able and all(names and len(names) == 1 for names in running):
            only = set().union(*filter(None, running))
            if len(only) == 1 and name not in only:
                conductors, names = found.setdefault(only.pop(), (set(), []))
                conductors.update(able)
                names.append(name)
    slots = {entity.name: number_of(entity, "concurrency") or 1 for entity in alive}
    filled = [
        FilledSlots(name, sum(slots[one] for one in conductors), len(conductors), tuple(sorted(names)))
        for name, (conductors, names) in found.items()
    ]
    return [one for one in filled if one.slots > 1]
