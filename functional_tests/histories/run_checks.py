"""What the records of conductors must show, and those of others beside a locked row; a function for each promise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from .checks import ENDS, Check, Violation, violation
from .faults import LINES, LOCKED_ROWS
from .history import Event, History, grants, of_kind
from .records import Fault, Op

#: For how many seconds a process may be slow, on a machine that is busy elsewhere.
_SLOW = 1.0
#: For how many seconds more a handler may run until it sees that its claim is over: it is told, and then it looks.
_UNTOLD = 2.0
#: A stop has ten seconds for the ends that are left; a call takes this many only if the machine has no time for it.
_FAR_TOO_SLOW = 3.0
#: Seconds after a fault in which what it caused may still be told.
_AFTERMATH = 6.0


def a_handler_begins_under_its_claim(history: History) -> Iterator[Violation]:
    for uuid, events in history.jobs.items():
        for run in of_kind(events, "run"):
            until = _known_to_hold_until(run, events, run.start)
            if run.start > until + _SLOW / 2:
                text = f"{run.start - until:.3f} s after the end of its claim"
                yield violation("a handler begins under its claim", uuid, run, text=text)


def a_handler_is_told_of_a_lost_claim(history: History) -> Iterator[Violation]:
    """It returns as soon as it sees that, so it runs no longer."""
    for uuid, events in history.jobs.items():
        for run in of_kind(events, "run"):
            if run.end == math.inf:
                continue
            until = _known_to_hold_until(run, events, run.end)
            paused = sum(fault.overlap(until, run.end) for fault in history.faults if fault.whom == run.op.process)
            if run.end > until + max(paused, run.op.answer["slow"]) + _UNTOLD:
                text = f"it ran on for {run.end - until:.3f} s"
                yield violation("a handler is told that its claim is over", uuid, run, text=text)


def _known_to_hold_until(run: Event, events: Sequence[Event], now: float) -> float:
    """Return until when an owner may believe that its claim holds, by what it was told before ``now``.

    Renewals that were under way count, since their answers may come within the moment.
    """
    told = [event for event in events if event.token == run.token and event.start <= now]
    granted = [event for event in told if event.kind == "claim" and event.is_ok]
    renewed = [event for event in of_kind(told, "extend") if event.is_ok and event.end <= now + _SLOW / 2]
    return max((event.start + event.op.args["expiry"] for event in [*granted, *renewed]), default=math.inf)


def nothing_under_a_claim_that_is_over(history: History) -> Iterator[Violation]:
    """A claim that nobody took over ends by its time, too.

    A trash whose first reply was lost may find the job in the trash, where its last attempt left it.
    """
    if history.rules.late is None:
        return
    for uuid, events in history.jobs.items():
        by_token = {grant.token: grant for grant in grants(events)}
        for end in of_kind(events, "consume", "abandon", "checkpoint"):
            grant = by_token.get(end.token)
            if not end.is_ok or grant is None:
                continue
            renewals = [
                event
                for event in of_kind(events, "extend")
                if event.token == end.token and event.may_have_happened and event.start < end.end
            ]
            over = max(event.op.latest + event.op.args["expiry"] for event in [grant, *renewals])
            if end.start > over + history.rules.late:
                text = f"{end.start - over:.3f} s after its end"
                yield violation("nothing under a claim that is over", uuid, grant, end, text=text)


def a_job_is_ended_after_its_handler(history: History) -> Iterator[Violation]:
    """What the handler of a job decided reaches the store soon, but for the time of faults that concern that job."""
    last = max((op.end for op in history.ops if op.end < math.inf), default=0.0)
    for uuid, events in history.jobs.items():
        for run in of_kind(events, "run"):
            if run.end == math.inf or run.op.answer["lost"] or _is_taken_away(run, events):
                continue
            tries = [event for event in of_kind(events, *ENDS) if event.token == run.token and event.end >= run.end]
            ended = min((event.end for event in tries if event.op.outcome in {"ok", "refused"}), default=last)
            ended = min(ended, history.death_of(run.op.process))
            waited = ended - run.end - history.time_of_faults(_concerns(run), run.end, ended)
            if waited > history.rules.ended_within:
                text = f"{waited:.1f} s without a fault after its handler"
                yield violation("a job is ended after its handler", uuid, run, *tries, text=text)


def _is_taken_away(run: Event, events: Sequence[Event]) -> bool:
    """Whether the claim was over before anybody could end it."""
    lost = any(event.op.outcome == "refused" and event.token == run.token for event in of_kind(events, "extend"))
    return lost or any(grant.token > run.token for grant in grants(events))


def _concerns(run: Event) -> Callable[[Fault], bool]:
    def concerns(fault: Fault) -> bool:
        if fault.kind in LOCKED_ROWS:
            return fault.whom == run.uuid
        return fault.kind not in LINES and fault.is_on(run.op.process)

    return concerns


def what_is_locked_stops_nobody_else(history: History) -> Iterator[Violation]:
    """A call about other jobs doesn't fail while the only fault far and wide is that the row of one job is locked."""
    locks = [fault for fault in history.faults if fault.kind in LOCKED_ROWS]
    for lock in locks:
        for op in history.ops:
            has_failed = op.outcome in {"unavailable", "unknown"} and op.end < math.inf
            if has_failed and lock.overlap(op.start, op.end) and lock.whom not in _uuids_of(op):
                others = [fault for fault in history.faults if fault is not lock and _may_have_caused(fault, op)]
                if not others:
                    text = f"{op.id} {op.op} {op.args}: {op.error}, while the row of job {lock.whom} was locked"
                    yield Violation("what is locked stops nobody else", text)


def _uuids_of(op: Op) -> set[str]:
    return {op.uuid or "", *(uuid for uuid, _ in op.args.get("fences", ()))}


def _may_have_caused(fault: Fault, op: Op) -> bool:
    return fault.overlap(op.start - _AFTERMATH, op.end) > 0 or op.start - _AFTERMATH < fault.start < op.end


def a_stop_ends_all(history: History) -> Iterator[Violation]:
    """Each history stops its conductors after its last fault."""
    for op in history.ops:
        if op.op == "stop" and op.answer is not True and not (op.is_ok and _has_waited_for_the_store(history, op)):
            yield Violation("a stop in good order ends all", f"{op.id}: {op.answer} {op.error}")


def _has_waited_for_the_store(history: History, stop: Op) -> bool:
    """Whether a call of the stopping process took most of the time that the stop has."""
    calls = [op for op in history.ops if op.process == stop.process and op.op not in {"stop", "run"}]
    return any(min(op.end, stop.end) - max(op.start, stop.start) > _FAR_TOO_SLOW for op in calls)


RUN_CHECKS: tuple[Check, ...] = (
    a_handler_begins_under_its_claim, a_handler_is_told_of_a_lost_claim, nothing_under_a_claim_that_is_over,
    a_job_is_ended_after_its_handler, what_is_locked_stops_nobody_else, a_stop_ends_all,
)  # fmt: skip
