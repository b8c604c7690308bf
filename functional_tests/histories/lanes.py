"""The lanes of a history: their limits, which stay, and what its records must show of them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from jobboard import JobBoard
from jobboard.types import LaneOrder

from .checks import BREAKS, ENDS, Check, Violation
from .history import Event, History, grants, holds_until
from .records import Op

#: The lane whose limit changes, and is paused, at any moment; and the most of it.
MOVING, MOST_MOVING = "moving:1", 3
#: Patterns of lanes, with how many of its jobs may run, and the order of each.
LIMITS: dict[str, tuple[int, LaneOrder]] = {
    "tenant:*": (2, "free"), "tenant:2": (3, "free"), "order:*": (1, "strict"), MOVING: (MOST_MOVING, "free"),
}  # fmt: skip
#: How many jobs of these names may run.
OF_NAMES = {"mail": 3}
LANES = ("tenant:1", "tenant:2", "order:1", MOVING, "unlimited:1")

#: Seconds for which a slot may be free while a job waits for it; and by which a busy machine may be late.
_FREE, _SLOW = 1.0, 1.5


def set_limits(board: JobBoard) -> None:
    for lane, (running, order) in LIMITS.items():
        board.limits.set(lane=lane, running=running, order=order)
    for name, running in OF_NAMES.items():
        board.limits.set(name=name, running=running)


def remove_limits(board: JobBoard) -> None:
    for limit in list(board.limits):
        if limit.paused:
            board.resume(lane=limit.lane)
        board.limits.remove(name=limit.name, lane=limit.lane)


def limit_of(lane: str) -> tuple[int, LaneOrder] | None:
    prefix = lane.rpartition(":")[0] + ":*"
    return LIMITS.get(lane) or LIMITS.get(prefix)


def look_at(board: Any, lane: str) -> dict[str, Any]:
    """Return how many jobs of a lane are in each state, of one moment."""
    stats = board.limits.lane(lane)
    return {"lane": lane, "running": stats.running, "claimable": stats.claimable, "retrying": stats.retrying,
            "blocked": stats.blocked}  # fmt: skip


def never_over(history: History) -> Iterator[Violation]:
    """At no moment more claims of a lane, or of a name, hold for certain than its limit allows."""
    claims: dict[tuple[str, int], list[tuple[float, float, Event]]] = defaultdict(list)
    for events in history.jobs.values():
        for grant in grants(events):
            until = _holds_for_certain_until(history, grant, events)
            if until > grant.end:
                for limited in _limits_of(grant):
                    claims[limited].append((grant.end, until, grant))
    for (what, most), held in claims.items():
        running: list[tuple[float, Event]] = []
        for start, until, grant in sorted(held, key=lambda each: each[0]):
            running = [(end, other) for end, other in running if end > start] + [(until, grant)]
            if len(running) > most:
                told = "; ".join(str(other) for _, other in running)
                yield Violation("never over a limit", f"{what}: {len(running)} of {most} run: {told}")


def _limits_of(grant: Event) -> Iterator[tuple[str, int]]:
    lane, name = grant.shown["lane"], grant.shown["name"]
    limit = None if lane is None else limit_of(lane)
    if limit is not None:
        yield f"lane {lane}", limit[0]
    if name in OF_NAMES:
        yield f"name {name}", OF_NAMES[name]


def _holds_for_certain_until(history: History, grant: Event, events: list[Event]) -> float:
    until = holds_until(grant, events) - history.rules.early
    if history.may_have_lost_its_session(grant.op.process, grant.start, until):
        return grant.end
    enders = [
        event.start
        for event in events
        if (event.kind in BREAKS or (event.kind in ENDS and event.token == grant.token))
        and event.may_have_happened
        and event.op.latest > grant.start
    ]
    return min([until, *enders])


def never_under(history: History) -> Iterator[Violation]:
    """No slot is free beside a job that waits for it for more than a second, but for the time of faults."""
    looks = [op for op in history.ops if op.op == "look_at_lane" and op.is_ok]
    for lane in LANES:
        of_lane = sorted((op for op in looks if op.answer["lane"] == lane), key=lambda op: op.start)
        for is_short, some in itertools.groupby(of_lane, key=lambda op: is_under(op.answer)):
            if is_short:
                yield from _free_for_long(history, lane, list(some))


def _free_for_long(history: History, lane: str, looks: list[Op]) -> Iterator[Violation]:
    first, last = looks[0], looks[-1]
    seconds = last.start - first.end - history.time_of_faults(lambda _: True, first.end, last.start)
    if seconds > _FREE + _SLOW:
        text = f"lane {lane}: for {seconds:.1f} s, as {len(looks)} looks show, from {first} to {last}"
        yield Violation("never under a limit", text)


def is_under(look: dict[str, Any]) -> bool:
    """Whether a look shows a job that waits beside a slot that is free; of the lane that moves nobody can say."""
    limit = limit_of(look["lane"])
    if limit is None:
        return look["blocked"] > 0
    running, order = limit
    held = look["running"] + look["claimable"] + (look["retrying"] if order == "strict" else 0)
    return bool(look["lane"] != MOVING and look["blocked"] and held < running)


def is_over(look: dict[str, Any]) -> bool:
    limit = limit_of(look["lane"])
    return limit is not None and look["running"] + look["claimable"] > limit[0]


LANE_CHECKS: tuple[Check, ...] = (never_over, never_under)
