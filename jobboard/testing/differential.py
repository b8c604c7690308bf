"""Leads lives of jobs on a store, and by the rules of :mod:`jobboard.backends.lifecycle` alone, and compares.

After each request the answer, every field of the records of all jobs of the life, and who holds the job's key must be
the same; after each third request, and before one that may end the job, the lines of its history and its parents, too;
after the last one those of all jobs; at the end every event. Times are compared roughly, tokens by their order. Events
that a store may leave out: EXTENDED and CHECKPOINTED (SQL keeps the last one of a job), and those before PURGED, since
the job is gone. Plain lives, without a key and while nobody listens, are led before: a store may have a shorter path
for them. On a store that keeps ties, three jobs of one lane are led at once.

A failure names the seed: ``check_lifecycle(harness, count, seed)`` draws the same lives again.
"""

from __future__ import annotations

import random
import time
import uuid as uuids
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.rows import (
    IfFailed,
    Ties,
)
from jobboard.events import EventKind, JobEvent
from jobboard.testing.harness import Harness
from jobboard.testing.lives import (
    BRIEF,
    Request,
    fixed_lives,
    fixed_lives_of_a_family,
    fixed_lives_of_three,
    plain_life,
    random_life,
    random_lives_of_a_family,
    random_lives_of_three,
)
from jobboard.testing.plain_store import PlainStore
from jobboard.testing.worlds import World, carry_out, records, unnamed

#: The difference of times that is none, in seconds.
NEAR = 60.0
#: For how long a store may take until its answers, or its events, are those of the rules, in seconds.
PATIENCE = 30.0
#: After how many requests the past of the job is looked at: it only grows, until the job is gone.
PAST_EACH = 3
#: The requests that may end a job, and its past with it.
ENDS = frozenset({"purge", "cancel", "replace", "consume", "end_with_posts"})
QUIET = frozenset({EventKind.EXTENDED, EventKind.CHECKPOINTED})


# -- comparing ---------------------------------------------------------------------------------------------------------


def is_same(ours: Any, theirs: Any) -> bool:
    """Whether two answers are the same, times roughly."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(is_same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return abs(ours - theirs) < NEAR
    return bool(ours == theirs)


def differences(ours: Any, theirs: Any) -> Any:
    """Return of two answers what is not the same."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {key: differences(ours[key], theirs.get(key)) for key in ours if not is_same(ours[key], theirs.get(key))}
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple) and len(ours) == len(theirs):
        return [differences(a, b) for a, b in zip(ours, theirs, strict=True) if not is_same(a, b)]
    return {"lifecycle": ours, "store": theirs}


class Differential:
    """Leads lives on a backend that is open, and by the rules.

    :param key: what all jobs have.
    """

    def __init__(self, backend: Backend, seed: int, key: str | None = "key") -> None:
        self._backend, self._seed, self._key = backend, seed, key
        # The store is asked for its time only once: later than this clock, and so it is never ahead of it.
        began = time.monotonic()
        self._ahead = backend.now() - began
        self._events: dict[str | None, list[JobEvent]] = defaultdict(list)
        self._lives: list[tuple[World, World, Sequence[Request]]] = []

    def listen(self) -> None:
        self._backend.listen(lambda event: self._events[event.uuid].append(event), frozenset(EventKind))

    def lead(self, life: Sequence[Request], lane: str | None = None) -> None:
        """Lead one life in both worlds, and compare after each request; all its jobs are tied to the lane, if any."""
        plain = PlainStore(self._now)
        ties = None if lane is None else Ties(lane)
        self._lead(life, [self._pair(plain, ties) for _ in range(1 + max(request.job for request in life))])

    def lead_family(self, life: Sequence[Request], if_failed: IfFailed) -> None:
        """Lead the lives of three jobs likewise, each of which waits for those before it."""
        plain, pairs = PlainStore(self._now), list[tuple[World, World]]()
        for _ in range(3):
            parents = tuple(ours.uuid for ours, _ in pairs)
            pairs.append(self._pair(plain, Ties(if_failed=if_failed), parents))
        self._lead(life, pairs)
        for ours, theirs in pairs:
            expected, seen = ours.family(), theirs.family()
            assert is_same(expected, seen), self._story(life, "the end", differences(expected, seen))

    def _lead(self, life: Sequence[Request], pairs: list[tuple[World, World]]) -> None:
        for number, request in enumerate(life):
            # The rules are asked a moment after the store, so that what is over there is over here.
            answer, expected = (carry_out(world, request, number) for world in reversed(pairs[request.job]))
            assert is_same(expected, answer), self._story(life, request, differences(expected, answer))
            if request.is_brief:
                time.sleep(2 * BRIEF)
            following = life[number + 1 :]
            if not following:
                whole = pairs
            elif number % PAST_EACH == PAST_EACH - 1 or following[0].kind in ENDS:
                whole = [pairs[request.job]]
            else:
                whole = []
            self._compare(pairs, whole, life, request)
        self._lives += [(*pair, life) for pair in pairs]

    def _now(self) -> float:
        return time.monotonic() + self._ahead

    def _pair(
        self, plain: PlainStore, ties: Ties | None, parents: tuple[str, ...] | None = None
    ) -> tuple[World, World]:
        """Return a new job by the rules, and on the store."""
        uuid = str(uuids.uuid4())
        return (
            World(plain, self._now, uuid, self._key, ties, parents),
            World(self._backend, self._now, uuid, self._key, ties, parents),
        )

    def _compare(
        self,
        pairs: Sequence[tuple[World, World]],
        whole: Sequence[tuple[World, World]],
        life: Sequence[Request],
        request: Request,
    ) -> None:
        """Compare what is seen of all jobs, for as long as something may be over in one world only.

        What is over of one job may admit another one, and a store may learn of it only by a look at the first.

        :param whole: those whose past is compared, too.
        """
        # What follows for the children of children may take a few requests more.
        is_patient = request.is_brief or pairs[-1][0].parents
        deadline = time.monotonic() + (PATIENCE if is_patient else 0.0)

        def look(side: int) -> list[Any]:
            past = [pair[side].past() for pair in whole]
            return [records([pair[side] for pair in pairs]), pairs[request.job][side].holder(), past]

        while not is_same(expected := look(0), seen := look(1)):
            assert time.monotonic() < deadline, self._story(life, request, differences(expected, seen))
            if is_patient:
                self._backend.maintenance.tidy(100)

    def compare_events(self) -> None:
        """Compare all that was told, for as long as some of it may be on its way."""
        deadline = time.monotonic() + PATIENCE
        for ours, theirs, life in self._lives:
            job, pauses = ours.store.told.get(ours.uuid, []), ours.store.maintenance.told.get(ours.name, [])
            for uuid, told in ((ours.uuid, job), (None, pauses)):
                expected = [(kind, who, ours.token(token), unnamed(reason)) for kind, who, _, token, reason in told]
                while not _is_told(expected, heard := self._heard(theirs, uuid)):
                    assert time.monotonic() < deadline, self._story(life, "events", differences(expected, heard))
                    time.sleep(0.01)

    def _heard(self, world: World, uuid: str | None) -> list[Any]:
        """Return the events of the life's job, or without a uuid those of its name."""
        events = [event for event in list(self._events[uuid]) if event.name == world.name]
        return [(event.kind, event.who, world.token(event.token), unnamed(event.reason)) for event in events]

    def _story(self, life: Sequence[Request], where: object, what: object) -> str:
        """Say of a failure what differs, where, in which life, and by which seed it was drawn."""
        lines = "\n".join(f"  {request}" for request in life)
        return f"seed {self._seed}, at {where}:\n{what}\nin the life {[request.kind for request in life]}:\n{lines}"


def _is_told(expected: Sequence[Any], heard: Sequence[Any]) -> bool:
    """Whether that is what was heard, but for what a store may leave out."""
    purged = [at for at, event in enumerate(expected) if event[0] is EventKind.PURGED]
    needed = [event for event in expected[purged[-1] if purged else 0 :] if event[0] not in QUIET]
    return _is_part(needed, heard) and _is_part(heard, expected)


def _is_part(some: Sequence[Any], whole: Sequence[Any]) -> bool:
    """Whether these are in the whole, in this order."""
    rest = iter(whole)
    return all(any(each == other for other in rest) for each in some)


def check_lifecycle(harness: Harness, count: int, seed: int | None = None) -> None:
    """Lead the fixed lives, and then ``count`` random ones, on a store of this harness.

    :param seed: of the random lives; None draws one.
    :raises AssertionError: on the first difference; says the seed and the life.
    """
    seed = random.randrange(2**32) if seed is None else seed
    draw = random.Random(seed)
    backend = harness.backend(harness.fresh_name())
    backend.open(20.0)
    try:
        plain = Differential(backend, seed, key=None)
        for each in (*fixed_lives(), *(random_life(draw) for _ in range(count))):
            plain.lead(plain_life(each))
        differential = Differential(backend, seed)
        differential.listen()
        for each in (*fixed_lives(), *(random_life(draw) for _ in range(count))):
            differential.lead(each)
        if harness.capabilities.ties:
            lives = (*fixed_lives_of_three(), *(random_lives_of_three(draw) for _ in range(count)))
            for number, each in enumerate(lives):
                differential.lead(each, f"lane {number}")
        if harness.capabilities.edges:
            lives = (*fixed_lives_of_a_family(), *(random_lives_of_a_family(draw) for _ in range(count)))
            for number, each in enumerate(lives):
                differential.lead_family(each, list(IfFailed)[number % len(IfFailed)])
        differential.compare_events()
        assert backend.maintenance.audit(False) == []
    finally:
        backend.close()
