"""Participants that are not heard of: since when, and whether several fell silent at one moment."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from jobboard.operate.conductors import GoneConductor
from jobboard.participants import Entity, handled, silence_of
from jobboard.text import duration

#: For how many seconds it is told that several fell silent together: what was away for longer is looked for elsewhere.
MAX_TOLD = 600.0
#: How many are named.
MAX_NAMED = 3
#: Which part of its time to live passes between two registrations, with what a busy machine adds.
_BETWEEN = 0.4


@dataclass(frozen=True, slots=True)
class Silence:
    """Participants that were last heard of at about one moment, so that something which they share was away.

    :ivar names: of two or more, in two processes or more.
    :ivar seconds: since the last of them was heard of.
    """

    names: frozenset[str]
    seconds: float


def last_heard(entities: Iterable[Entity], names: Collection[str], now: float) -> float:
    """Return for how many seconds no conductor that is gone and had handlers for these was heard of; else infinity."""
    gone = [entity for entity in entities if not entity.alive and handled(entity, names)]
    return min((silence_of(entity, now) for entity in gone), default=math.inf)


def fallen_silent(entities: Iterable[Entity], replaced: Collection[str], now: float) -> Silence | None:
    """Return those that fell silent together with the last one that did; None if it was alone, or long ago.

    :param replaced: the names of those for which another one began, which nobody expects back.
    """
    gone = [one for one in entities if not one.alive and one.last_seen is not None and one.name not in replaced]
    latest = min((silence_of(one, now) for one in gone), default=math.inf)
    together = [one for one in gone if silence_of(one, now) - latest <= _BETWEEN * one.ttl]
    # A conductor and a scheduler in one process are one witness: its kill is no outage of the store.
    is_shared = len({_process_of(one) for one in together}) > 1
    return Silence(frozenset(one.name for one in together), latest) if is_shared and latest <= MAX_TOLD else None


def _process_of(entity: Entity) -> tuple[object, ...]:
    """Return the host and the pid that it told; what tells none is a process of its own."""
    match entity.metadata:
        case {"host": str(host), "pid": int(pid)}:
            return host, pid
    return (entity.name,)


def told_silence(silence: Silence, gone: Iterable[GoneConductor]) -> str:
    """Say who fell silent, when the claims of these are over, and what to wait for."""
    held = [one for one in gone if one.held and one.name in silence.names]
    claims = f" They hold {jobs_held(held)}, {when_claims_end(held)}." if held else ""
    names, since = sorted(silence.names), duration(silence.seconds)
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return (
        f"{', '.join(names[:MAX_NAMED])}{more} were last heard of at about the same moment, {since} ago: the store was "
        f"away, or the network, or their host.{claims} Once the store is back they tell of themselves within seconds, "
        "so wait, and release nothing; if they don't, see: jobboard entities"
    )


def jobs_held(holders: Sequence[GoneConductor]) -> str:
    """Say how many jobs these conductors hold together, as far as claimed jobs were read."""
    number, has_more = sum(one.held for one in holders), holders[0].has_more
    return f"{number}{' or more' * has_more} job{'s' * (number != 1 or has_more)}"


def when_claims_end(holders: Iterable[GoneConductor]) -> str:
    """Say when the claims of conductors that hold jobs are over if nobody releases them."""
    seconds = max(one.ends_in for one in holders)
    return (
        "by claims that never end by time" if seconds == math.inf else f"by claims that end within {duration(seconds)}"
    )
