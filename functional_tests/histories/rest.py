"""The store at rest: what a fresh client sees once nobody works any more, and what is left when all of it is gone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jobboard import BoardUnavailable, Job, JobBoard, JobState
from jobboard.states import LIVE
from jobboard.testing import eventually

from .checks import Violation
from .history import History, of_kind
from .lanes import LANES, is_over, is_under, look_at, remove_limits, set_limits

#: How long claims and delays of a history last at most, with time for a busy machine, in seconds.
_SETTLED_WITHIN = 60.0


@dataclass
class Rest:
    """What was seen, in the order in which it was looked at.

    ``drained`` are the jobs that one client then claimed, in their order; ``left`` is what the store holds for the
    emptied board, and ``left_of_new`` what it holds for one on which one job of each name was posted and consumed.
    """

    listed: list[dict[str, Any]]
    stats: dict[str, Any]
    job_count: int
    findings: list[str]
    lanes: list[dict[str, Any]] = field(default_factory=list)
    drained: list[str] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)
    left_of_new: dict[str, int] = field(default_factory=dict)

    @property
    def leaks(self) -> bool:
        """Whether the emptied board holds more of anything; it holds less if a short history left out a lane."""
        return any(number > self.left_of_new.get(what, 0) for what, number in self.left.items())


def look(board: JobBoard) -> Rest:
    """Wait until every claim and delay is over, and look at all there is."""
    deadline = time.monotonic() + _SETTLED_WITHIN
    while any(job["state"] in {"CLAIMED", "DELAYED"} for job in _listed(board)) and time.monotonic() < deadline:
        board.stats()
    # The last claim may have ended between two pages of that, and made room for a job on the first one.
    listed = _listed(board)
    stats = board.stats()
    names = {
        name: [own.delayed, own.blocked, own.unclaimed, own.claimed, own.trashed] for name, own in stats.names.items()
    }
    return Rest(
        listed=listed,
        stats={"all": [stats.delayed, stats.blocked, stats.unclaimed, stats.claimed, stats.trashed], "names": names},
        job_count=board.job_count,
        findings=[f"{finding.uuid}: {finding.problem}" for finding in board.audit()],
        lanes=[look_at(board, lane) for lane in LANES],
    )


def _listed(board: JobBoard) -> list[dict[str, Any]]:
    jobs = board.iterjobs(ensure_fresh=True, states={*LIVE, JobState.TRASHED})
    return [_shown(job) for job in jobs]


def _shown(job: Job) -> dict[str, Any]:
    return {"uuid": job.uuid, "name": job.name, "key": job.key, "state": str(job.record.state)}


def drain(board: JobBoard, rest: Rest) -> None:
    """Claim and consume all, without limits, purge the trash, and forget the conductors that were killed."""
    remove_limits(board)
    for _ in range(len(rest.listed) + 1):
        claimed = board.claim_next("drain", limit=7, expiry=600)
        rest.drained += [job.uuid for job in claimed]
        board.consume_many(claimed, "drain")
        if not claimed:
            break
    for job in list(board.trashed()):
        board.purge(job.uuid)
    for entity in board.entities():
        board.remove_entity(entity)


def look_at_what_is_left(
    boards: tuple[JobBoard, JobBoard], rest: Rest, holds: Callable[[str], dict[str, int]], within: float
) -> None:
    """Tidy the emptied board and a new one until the store holds no more for the first one.

    :param holds: what the store holds for a board of this name, counted past the library.
    """

    def is_as_good_as_new() -> bool:
        try:
            for board in boards:
                board._backend.maintenance.tidy(1000)
                # A waiting client lets the store forget waiters that were killed.
                next(board.wait(0.01), None)
        except BoardUnavailable:
            # A server may be slow on a machine that is busy elsewhere.
            return False
        rest.left, rest.left_of_new = (holds(board.name) for board in boards)
        return not rest.leaks

    try:
        eventually(is_as_good_as_new, within=within, every=0.5)
    except AssertionError:
        pass  # the check tells what is left


def use_once(board: JobBoard, names: tuple[str, ...]) -> None:
    """Let jobs of each name and lane go the whole way; the first of a kind may leave what all later ones share."""
    set_limits(board)
    for name in names:
        board.post(name, key="a")
        for lane in LANES:
            board.post(name, lane=lane)
    while claimed := board.claim_next("first", limit=10):
        board.consume_many(claimed, "first")
    remove_limits(board)


def patiently(call: Callable[[], None], within: float = 60.0) -> None:
    """Make a call that needs a store which may be just starting again."""

    def is_done() -> bool:
        try:
            call()
        except BoardUnavailable:
            return False
        return True

    eventually(is_done, within=within, every=0.1)


def check_rest(history: History, rest: Rest) -> list[Violation]:
    """Return every violation that the store at rest shows, beside the records."""
    found: list[Violation] = []
    for one in (
        nothing_lost,
        nothing_from_nowhere,
        once,
        nothing_stuck,
        lanes_are_full,
        counts_agree,
        drained_in_order,
        emptied,
    ):
        found += one(history, rest)
    found += [Violation("a clean audit", f"at rest: {finding}") for finding in rest.findings]
    return found


def nothing_lost(history: History, rest: Rest) -> Iterator[Violation]:
    """Each posted job is in the store, or somebody ended it, or may have."""
    there = {job["uuid"] for job in rest.listed}
    for uuid, events in history.jobs.items():
        posts = [event for event in of_kind(events, "post") if event.is_ok and event.shown["uuid"] == uuid]
        if not posts or uuid in there:
            continue
        last = posts[-1]
        # A purged uuid that is posted again is a new job, which no earlier end excuses. But a purge that was repeated
        # may find a job that has ended, and which is remembered for repeated posts: that one is no new job.
        before = {event.shown.get("sequence") for event in events if event.end < last.start}
        is_new = last.shown["sequence"] not in before and any(
            event.is_ok and event.end < last.start for event in of_kind(events, "purge")
        )
        ends = [
            event
            for event in of_kind(events, "consume", "cancel", "purge")
            if event.may_have_happened and (not is_new or event.op.latest > last.start)
        ]
        if not ends:
            yield Violation("nothing is lost", f"job {uuid}: {last}, and it is nowhere")


def nothing_from_nowhere(history: History, rest: Rest) -> Iterator[Violation]:
    """What is there was posted, and was not ended by anybody to whom that was acknowledged."""
    for job in rest.listed:
        events = history.jobs.get(job["uuid"], [])
        posts = [event for event in of_kind(events, "post") if event.may_have_happened]
        if not posts:
            told = "; ".join(map(str, events)) or "nobody"
            yield Violation("what was refused changes nothing", f"job {job} is there, posted by {told}")
        for end in of_kind(events, "consume", "cancel"):
            if end.is_ok and end.op.answer is not False:
                yield Violation("a job that has ended is gone", f"job {job} is there after {end}")


def once(_: History, rest: Rest) -> Iterator[Violation]:
    counted = Counter(job["uuid"] for job in rest.listed)
    keys = Counter((job["name"], job["key"]) for job in rest.listed if job["key"] and job["state"] != "TRASHED")
    for what, number in [*counted.items(), *keys.items()]:
        if number > 1:
            yield Violation("a repeated request has the effect of once", f"{what} is there {number} times")


def nothing_stuck(_: History, rest: Rest) -> Iterator[Violation]:
    for job in rest.listed:
        if job["state"] in {"CLAIMED", "DELAYED"}:
            yield Violation("every claim and delay ends", f"job {job}, {_SETTLED_WITHIN:.0f} s after the last call")


def lanes_are_full(_: History, rest: Rest) -> Iterator[Violation]:
    for lane in rest.lanes:
        if is_over(lane):
            yield Violation("never over a limit", f"at rest: {lane}")
        if is_under(lane):
            yield Violation("never under a limit", f"at rest: {lane}")


def counts_agree(_: History, rest: Rest) -> Iterator[Violation]:
    states = ("DELAYED", "BLOCKED", "UNCLAIMED", "CLAIMED", "TRASHED")
    by_name = Counter((job["name"], job["state"]) for job in rest.listed)
    names = {name for name, _ in by_name} | set(rest.stats["names"])
    counted = {name: [by_name[name, state] for state in states] for name in names}
    told = {name: rest.stats["names"].get(name, [0] * 5) for name in names}
    in_all = [sum(numbers[index] for numbers in counted.values()) for index in range(5)]
    live = sum(in_all[:4])
    if (counted, in_all, live) != (told, rest.stats["all"], rest.job_count):
        text = f"listed {counted}, {live} live; stats {rest.stats}, job_count {rest.job_count}"
        yield Violation("counts equal the listing", text)


def drained_in_order(_: History, rest: Rest) -> Iterator[Violation]:
    """What was BLOCKED comes at its own turn."""
    expected = [job["uuid"] for job in rest.listed if job["state"] == "UNCLAIMED"]
    blocked = {job["uuid"] for job in rest.listed if job["state"] == "BLOCKED"}
    in_turn = [uuid for uuid in rest.drained if uuid not in blocked]
    if in_turn != expected or not blocked <= set(rest.drained):
        wanted = {*expected, *blocked}
        missing, extra = wanted - set(rest.drained), set(rest.drained) - wanted
        text = f"not claimed: {missing}; not listed: {extra}; else another order"
        yield Violation("best first", f"an only client drained the board differently from its listing: {text}")


def emptied(_: History, rest: Rest) -> Iterator[Violation]:
    if rest.leaks:
        yield Violation("nothing leaks", f"the emptied board holds {rest.left}, a new one {rest.left_of_new}")
