"""Participants of a board, and what they tell of themselves, read with care: any program may have written it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from jobboard.types import Seconds
from jobboard.validation import check_expiry, check_text

T = TypeVar("T")

#: What a conductor tells in place of the names of its handlers if it runs jobs of every name, as those of TaskFlow do.
EVERY_NAME = "*"
#: How many of the longest runs a conductor tells, and of how many names how many run.
_MAX_TOLD, _MAX_NAMES = 5, 20
#: What tells of more seconds is damaged.
_MAX_UPTIME = 10 * 365 * 86_400


@dataclass(frozen=True, init=False, slots=True)
class Entity:
    """Somebody who works on the board.

    :param kind: such as ``"conductor"``; with the name it is the identity.
    :param name: unique within its kind.
    :param metadata: plain data about it, such as its host, its pid and what it runs.
    :param ttl: seconds after which it counts as gone unless it registers again; ``math.inf`` for never.

    ``last_seen`` and ``alive`` are filled in by ``board.entities()``.
    """

    kind: str
    name: str
    metadata: dict[str, Any] = field(repr=False)
    ttl: float
    last_seen: datetime | None
    alive: bool

    def __init__(
        self,
        kind: str,
        name: str,
        metadata: dict[str, Any] | None = None,
        ttl: Seconds = 60.0,
        last_seen: datetime | None = None,
        alive: bool = False,
    ) -> None:
        object.__setattr__(self, "kind", check_text("an entity's kind", kind))
        object.__setattr__(self, "name", check_text("an entity's name", name))
        object.__setattr__(self, "metadata", {} if metadata is None else metadata)
        object.__setattr__(self, "ttl", check_expiry(ttl))
        object.__setattr__(self, "last_seen", last_seen)
        object.__setattr__(self, "alive", alive)


def names_of(entity: Entity, which: str = "names") -> set[str]:
    """Return a set of job names from the metadata: those with a handler, ``"refused"`` or ``"stuck_names"``."""
    names = entity.metadata.get(which)
    return {name for name in names if isinstance(name, str)} if isinstance(names, (list, tuple)) else set()


def number_of(entity: Entity, what: str) -> int:
    """Return a number from the metadata, such as ``"stuck"``; 0 if it is none."""
    number = entity.metadata.get(what)
    return number if isinstance(number, int) else 0


@dataclass(frozen=True, slots=True)
class Run:
    """A handler that has not returned: the job's uuid and name, and the seconds until its conductor last told of it."""

    uuid: str
    name: str
    seconds: float


def told_of(runs: Collection[Run]) -> dict[str, Any]:
    """Return what a conductor tells operators of its handlers: the longest runs, and how many of most names run."""
    longest = sorted(runs, key=lambda run: -run.seconds)[:_MAX_TOLD]
    return {
        "longest": [asdict(run) for run in longest],
        "running_names": dict(Counter(run.name for run in runs).most_common(_MAX_NAMES)),
    }


def runs_of(entity: Entity) -> list[Run]:
    """Return what it has run longest, the longest first; conductors tell five at most."""
    return sorted(_reported(entity, "longest", _run_of), key=lambda run: -run.seconds)


def _reported(entity: Entity, what: str, read: Callable[[object], T | None]) -> list[T]:
    """Return what it tells in a list of its metadata, but for what can't be read."""
    told = entity.metadata.get(what)
    return [one for each in told if (one := read(each)) is not None] if isinstance(told, (list, tuple)) else []


def _run_of(reported: object) -> Run | None:
    match reported:
        case {"uuid": str(uuid), "name": str(name), "seconds": int() | float() as seconds}:
            return Run(uuid, name, float(seconds))
    return None


def running_names(entity: Entity) -> dict[str, int] | None:
    """Return how many jobs of each name a conductor runs; None if it does not tell all, as an older one does not."""
    told = entity.metadata.get("running_names")
    names = told if isinstance(told, dict) else Counter(run.name for run in runs_of(entity))
    found = {name: number for name, number in names.items() if isinstance(name, str) and isinstance(number, int)}
    return found if sum(found.values()) >= number_of(entity, "running") else None


def is_full(entity: Entity) -> bool:
    """Whether a conductor has no free slot; of stuck slots those count that nothing replaces."""
    lost = max(0, number_of(entity, "stuck") - number_of(entity, "max_stuck"))
    return number_of(entity, "running") + lost >= (number_of(entity, "concurrency") or 1)


def began_at(entity: Entity) -> datetime | None:
    """Return when it began, alive or gone; None if it did not tell."""
    uptime = entity.metadata.get("uptime")
    if entity.last_seen is None or not isinstance(uptime, int) or not 0 <= uptime < _MAX_UPTIME:
        return None
    return entity.last_seen - timedelta(seconds=uptime)


def silence_of(entity: Entity, now: float) -> float:
    """Return for how many seconds it was not heard of, by the store's clock; 0 if that is not known."""
    return 0.0 if entity.last_seen is None else max(0.0, now - entity.last_seen.timestamp())


def is_silent(entity: Entity, now: float) -> bool:
    """Whether it has missed two of the four registrations without which it counts as gone."""
    return silence_of(entity, now) > entity.ttl / 2


@dataclass(frozen=True, slots=True)
class UnsentEnd:
    """A job whose handler has returned and whose end the store has refused for ``seconds``, by this error."""

    uuid: str
    name: str
    seconds: float
    error: str


def unsent_of(entity: Entity) -> list[UnsentEnd]:
    """Return the ends that the store refuses to a conductor that is alive; conductors tell twenty at most."""
    return _reported(entity, "unsent", _unsent_of) if entity.alive else []


def _unsent_of(reported: object) -> UnsentEnd | None:
    match reported:
        case {"uuid": str(uuid), "name": str(name), "seconds": int() | float() as seconds, "error": str(error)}:
            return UnsentEnd(uuid, name, float(seconds), error)
    return None


@dataclass(frozen=True, slots=True)
class SilentRun:
    """A handler that has given no sign of life for ``seconds``, and has failed after ``limit`` of them."""

    uuid: str
    seconds: float
    limit: float


def told_of_silent(runs: Iterable[SilentRun]) -> dict[str, Any]:
    """Return what a conductor tells operators of those that have been silent for half of the limit, or longer."""
    silent = sorted((run for run in runs if run.seconds >= run.limit / 2), key=lambda run: -run.seconds)
    return {"silent_runs": [asdict(run) for run in silent[:_MAX_NAMES]]}


def silent_runs_of(entity: Entity) -> list[SilentRun]:
    """Return those of a conductor that is alive; conductors tell twenty at most."""
    return _reported(entity, "silent_runs", _silent_of) if entity.alive else []


def _silent_of(reported: object) -> SilentRun | None:
    match reported:
        case {"uuid": str(uuid), "seconds": int() | float() as seconds, "limit": int() | float() as limit}:
            return SilentRun(uuid, float(seconds), float(limit))
    return None


def handles_all(entity: Entity) -> bool:
    """Whether it is a conductor that runs jobs of every name."""
    return entity.kind == "conductor" and entity.metadata.get("names") == EVERY_NAME


def handled(entity: Entity, names: Iterable[str]) -> set[str]:
    """Return those of the names for which it is a conductor with a handler."""
    if handles_all(entity):
        return set(names)
    return names_of(entity).intersection(names) if entity.kind == "conductor" else set()


def handles(entity: Entity, name: str) -> bool:
    """Whether it is a conductor with a handler for jobs of this name."""
    return bool(handled(entity, [name]))


def stands_in_for(entity: Entity, other: Entity) -> bool:
    """Whether it is a conductor with all the handlers of the other one."""
    return handles_all(entity) or (not handles_all(other) and names_of(other) <= names_of(entity))


def unhandled(entities: Iterable[Entity], names: Iterable[str]) -> set[str]:
    """Return those of the names for which no conductor that is alive has a handler; none if no conductor is alive."""
    alive = [entity for entity in entities if entity.alive and entity.kind == "conductor"]
    wanted = set(names)
    return wanted.difference(*(handled(entity, wanted) for entity in alive)) if alive else set()


def is_quiet(entity: Entity) -> bool:
    """Whether an operator has told it to claim no more, and it does so."""
    return entity.metadata.get("quiet") is True


def is_stopping(entity: Entity) -> bool:
    """Whether it runs what it has claimed, and then ends."""
    return entity.metadata.get("stopping") is True


def is_willing(entity: Entity) -> bool:
    """Whether it is alive, and neither stops nor was told to claim no more."""
    return entity.alive and not is_quiet(entity) and not is_stopping(entity)


def claims(entity: Entity, name: str) -> bool:
    """Whether it is a conductor that is alive and claims jobs of this name now."""
    return is_willing(entity) and handles(entity, name) and name not in names_of(entity, "refused")
