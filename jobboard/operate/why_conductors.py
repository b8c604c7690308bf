"""Why no conductor takes a job: none has a handler, all are silent, quiet or full, and what has their slots."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobboard.operate.pasting import argument
from jobboard.operate.reason import Reason
from jobboard.participants import (
    Entity,
    handles,
    is_full,
    is_silent,
    is_stopping,
    is_willing,
    names_of,
    number_of,
    running_names,
    silence_of,
)
from jobboard.text import duration

if TYPE_CHECKING:
    from jobboard.job import Job

#: How many conductors are named, and how many of the names that each of them runs.
MAX_CONDUCTORS, MAX_NAMES = 5, 3

_START_ONE = "Which there are says: jobboard entities; start one with: jobboard conductor MODULE:HANDLERS"


def able_of(entities: Sequence[Entity], name: str) -> list[Entity]:
    """Return the conductors that count as alive, have a handler for this name, don't stop and are not quiet."""
    return [entity for entity in entities if is_willing(entity) and handles(entity, name)]


def why_unclaimed(entities: Sequence[Entity], job: Job, now: float) -> Iterator[Reason]:
    """Yield why no conductor takes a job of this name now; nothing if one can. No request.

    Kinds: ``no_conductor``, ``quiet``, ``conductor_silent``, ``no_free_slot``, ``stuck``.

    :param now: the moment by the store's clock, in seconds of the epoch.
    """
    able = able_of(entities, job.name)
    if not able:
        yield _why_unhandled(entities, job, now)
        return
    heard = [entity for entity in able if not is_silent(entity, now)]
    if not heard:
        yield Reason("conductor_silent", _silent(able, job, now), "See what it held with: jobboard owners")
        return
    is_taken = all(map(is_full, heard))
    if is_taken:
        yield Reason("no_free_slot", _taken(able, heard, job), "See them with: jobboard ls --state claimed")
    refusing = [entity for entity in heard if job.name in names_of(entity, "refused")]
    if is_taken or len(refusing) == len(heard):
        yield from (Reason("stuck", _stuck(entity, job)) for entity in heard if number_of(entity, "stuck"))
        yield from (Reason("stuck", _fault(entity)) for entity in refusing if entity.metadata.get("fault"))


@dataclass(frozen=True, slots=True)
class Claimers:
    """Who could claim jobs that wait for it, as far as participants and pauses say.

    :ivar paused: the names that are paused; None stands for the board.
    """

    entities: Sequence[Entity]
    paused: Collection[str | None]

    def obstacle(self, name: str) -> str:
        """Return why nobody claims a job of this name now, as the end of a sentence; empty if a conductor can."""
        if name in self.paused or None in self.paused:
            return f" and {'its name' if name in self.paused else 'the board'} is paused"
        able = able_of(self.entities, name)
        if not able:
            return " and no conductor runs its name"
        return " and no conductor of its name has a free slot" if all(map(is_full, able)) else ""


def why_next(able: Sequence[Entity], now: float) -> str:
    """Say that a job is the next, and as of when it is known that a conductor has a free slot for it."""
    free = [entity for entity in able if not is_full(entity) and not is_silent(entity, now)]
    if not free:
        return "Nothing holds it back: it is the next for a conductor with a free slot."
    last = min(free, key=lambda entity: silence_of(entity, now))
    told = f"{last.name}, which told of a free slot {duration(silence_of(last, now))} ago"
    return f"It is the next for {told}, and may have filled it since. Nothing else holds it back."


def _why_unhandled(entities: Sequence[Entity], job: Job, now: float) -> Reason:
    handling = [entity for entity in entities if handles(entity, job.name)]
    if quiet := [entity for entity in handling if entity.alive and not is_stopping(entity)]:
        text = f"All conductors with a handler for {job.name!r} are quiet ({len(quiet)})."
        return Reason("quiet", text, f"Let one claim again with: jobboard quiet --off {argument(quiet[0].name)}")
    if stopping := [entity for entity in handling if entity.alive]:
        text = f"All conductors with a handler for {job.name!r} are stopping ({len(stopping)})"
        text = f"{text}: {stopping[0].name} finishes what it runs, and claims no more."
        return Reason("no_conductor", text, _START_ONE)
    posts = f", which schedule {job.schedule_id!r} posts" if job.schedule_id else ""
    text = f"No conductor that is alive has a handler for {job.name!r}{posts}."
    if handling:
        last = min(handling, key=lambda entity: silence_of(entity, now))
        seen = f"{last.name}, which had one, was last heard of {duration(silence_of(last, now))} ago"
        text = f"{text} {seen}, and did not stop in good order."
        return Reason("no_conductor", text, "Start one; see: jobboard entities")
    return Reason("no_conductor", text, _START_ONE)


def _silent(able: Sequence[Entity], job: Job, now: float) -> str:
    last = min(able, key=lambda entity: silence_of(entity, now))
    others = f", the last of {len(able)}" if len(able) > 1 else ""
    return (
        f"No conductor with a handler for {job.name!r} tells that it lives: {last.name}{others} was last heard of "
        f"{duration(silence_of(last, now))} ago, which is too long. It was killed, can't reach the store, or one of "
        f"its handlers keeps the interpreter."
    )


def _taken(able: Sequence[Entity], heard: Sequence[Entity], job: Job) -> str:
    silent = f", and {len(able) - len(heard)} more that tell nothing now" if len(able) > len(heard) else ""
    text = (
        f"No conductor with a handler for {job.name!r} had a free slot when last heard of; alive: {len(heard)}{silent}"
    )
    shown = "; ".join(map(_running, heard[:MAX_CONDUCTORS]))
    more = f"; and {len(heard) - MAX_CONDUCTORS} more" if len(heard) > MAX_CONDUCTORS else ""
    return f"{text}. What has the slots: {shown}{more}."


def _running(entity: Entity) -> str:
    """Say what a conductor runs: ``worker@host:7 runs 3 'resize', 1 'mail'``."""
    slots = f"{number_of(entity, 'running')} of {number_of(entity, 'concurrency') or 1} slots"
    names = running_names(entity)
    if not names:
        return f"{entity.name} has {slots} taken"
    most = sorted(names.items(), key=lambda one: (-one[1], one[0]))
    listed = [f"{number} {name!r}" for name, number in most[:MAX_NAMES]]
    listed += [f"{len(most) - MAX_NAMES} other names"] if len(most) > MAX_NAMES else []
    return f"{entity.name} runs {', '.join(listed)} in {slots}"


def _stuck(entity: Entity, job: Job) -> str:
    names = ", ".join(map(repr, sorted(names_of(entity, "stuck_names"))))
    number = number_of(entity, "stuck")
    text = f"In {entity.name} {number} of its slots are stuck, in handlers of {names} that outlast their claims"
    if job.name in names_of(entity, "refused"):
        return f"{text}; it claims no more jobs named {job.name!r} until one of them returns. Start it anew."
    return f"{text}."


def _fault(entity: Entity) -> str:
    return f"{entity.name} can't run anything for now: {entity.metadata['fault']}."
