"""What the records of a history must show, a function for each promise; none of them asks a store."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from .history import Event, History, grants, holds_until, of_kind

#: The calls that need a claim, and those of them that end it.
FENCED = ("extend", "checkpoint", "consume", "abandon", "trash")
ENDS = ("consume", "abandon", "trash")
#: What anybody may do to a claim of somebody else.
BREAKS = ("release", "trash_by_force")


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and the calls that show it."""

    promise: str
    text: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.text}"


Check = Callable[[History], Iterator[Violation]]


def check(history: History, checks: Iterable[Check]) -> list[Violation]:
    """Return every violation that the records show."""
    return list(itertools.chain.from_iterable(one(history) for one in checks))


def consumed_once(history: History) -> Iterator[Violation]:
    for uuid, events in history.jobs.items():
        ended = [event for event in of_kind(events, "consume") if event.is_ok]
        cancelled = [event for event in of_kind(events, "cancel") if event.is_ok and event.op.answer is True]
        if len(ended) + bool(cancelled) > 1:
            yield violation("consumed once", uuid, *ended, *cancelled)


def one_end_of_a_claim(history: History) -> Iterator[Violation]:
    for uuid, events in history.jobs.items():
        for token in {event.token for event in of_kind(events, *ENDS)}:
            ended = [event for event in of_kind(events, *ENDS) if event.token == token and event.is_ok]
            if len(ended) > 1 and not all(_finds_its_wish_done(ended[0], other) for other in ended[1:]):
                yield violation("one end of a claim", uuid, *ended)


def gone_stays_gone(history: History) -> Iterator[Violation]:
    for uuid, events in history.jobs.items():
        for end in of_kind(events, "consume", "cancel"):
            if end.is_ok and end.op.answer is not False:
                for grant in grants(events):
                    if grant.start >= end.end:
                        yield violation("a job that has ended is not claimed", uuid, end, grant)


def purged_is_gone(history: History) -> Iterator[Violation]:
    for uuid, events in history.jobs.items():
        posts = [event for event in of_kind(events, "post") if event.may_have_happened]
        for purge in of_kind(events, "purge"):
            for grant in grants(events):
                is_anew = any(post.may_lie_between(purge.start, grant.end) for post in posts)
                if purge.is_ok and grant.start >= purge.end and not is_anew:
                    yield violation("a job that was purged is gone", uuid, purge, grant)


def tokens_rise(history: History) -> Iterator[Violation]:
    for uuid, events in history.jobs.items():
        for one, other in pairwise(grants(events)):
            if one.token == other.token or other.end < one.start:
                yield violation("tokens rise", uuid, one, other)


def nothing_under_a_stale_token(history: History) -> Iterator[Violation]:
    """Whatever ended a claim for certain before a call began, that call must not be acknowledged."""
    for uuid, events in history.jobs.items():
        enders = [event for event in events if event.is_ok and _ends_claims(event)]
        since = {grant.token: grant for grant in grants(events)}
        for call in of_kind(events, *FENCED):
            if call.is_ok:
                for ender in enders:
                    is_over = ender.end <= call.start and _is_over_by(ender, call.token, since.get(call.token))
                    if is_over and not _finds_its_wish_done(ender, call):
                        yield violation("nothing under a stale token", uuid, ender, call)


def _finds_its_wish_done(ender: Event, call: Event) -> bool:
    """Whether a trash whose first reply was lost may have found the job in the trash, under its own token."""
    return call.kind == "trash" and ender.kind in {"abandon", "trash_by_force"}


def _ends_claims(event: Event) -> bool:
    return event.kind in {"claim", *ENDS, *BREAKS} or (event.kind == "cancel" and event.op.answer is True)


def _is_over_by(ender: Event, token: int, grant: Event | None) -> bool:
    """Whether the claim of this token can't hold any more after ``ender``."""
    if ender.kind == "claim":
        return ender.token > token
    if ender.kind in ENDS:
        return ender.token == token
    return grant is not None and grant.end <= ender.start


def not_before_its_expiry(history: History) -> Iterator[Violation]:
    for uuid, events in history.jobs.items():
        for one, other in pairwise(grants(events)):
            until = holds_until(one, events) - history.rules.early
            if other.end < until and not _may_be_broken(history, events, one, other.end):
                text = f"{until - other.end:.3f} s too early"
                yield violation("no claim is taken before its expiry", uuid, one, other, text=text)


def kept_until_its_expiry(history: History) -> Iterator[Violation]:
    """Nobody is told that a claim is lost that holds for certain."""
    for uuid, events in history.jobs.items():
        by_token = {grant.token: grant for grant in grants(events)}
        for call in of_kind(events, *FENCED):
            grant = by_token.get(call.token)
            if call.op.outcome == "refused" and grant is not None:
                before = [event for event in events if event.start <= call.start]
                left = holds_until(grant, before) - history.rules.early - call.end
                if left > 0 and not _may_be_broken(history, events, grant, call.end):
                    text = f"{left:.3f} s before its end"
                    yield violation("a claim holds until its expiry", uuid, grant, call, text=text)


def _may_be_broken(history: History, events: list[Event], grant: Event, end: float) -> bool:
    """Whether a claim may have ended before ``end`` by anything but its expiry."""
    enders = [
        event
        for event in events
        if event.kind in BREAKS or (event.kind in ENDS and event.token == grant.token)
    ]  # fmt: skip
    return any(
        event.may_lie_between(grant.start, end) for event in enders
    ) or history.may_have_lost_its_session(grant.op.process, grant.start, end)  # fmt: skip


def not_before_it_is_due(history: History) -> Iterator[Violation]:
    for uuid, events in history.jobs.items():
        if _may_be_replaced(events):
            continue
        later = grants(events)
        restored = of_kind(events, "restore", "trash_by_force", "purge")
        for delayed in of_kind(events, "post", "abandon"):
            delay = delayed.op.args.get("delay")
            if not delay or not delayed.is_ok:
                continue
            # A post may be the repeat of one that took effect, so the first of its uuid counts.
            same = [event for event in of_kind(events, "post") if event.may_have_happened]
            start = min(event.start for event in same) if delayed.kind == "post" else delayed.start
            first = next((grant for grant in later if grant.token > delayed.token), None)
            if first is None or any(event.may_lie_between(start, first.end) for event in restored):
                continue
            if first.end < start + delay - history.rules.early:
                text = f"{start + delay - first.end:.3f} s too early"
                yield violation("no job is claimed before it is due", uuid, delayed, first, text=text)


def _may_be_replaced(events: list[Event]) -> bool:
    """Whether a posting of the same key may have changed what the job was posted with."""
    return any(event.op.args.get("key") for event in of_kind(events, "post"))


def best_first(history: History) -> Iterator[Violation]:
    for op in history.ops:
        if op.op != "claim_next" or not op.answer:
            continue
        places = [(-job["priority"], job["place"], job["sequence"]) for job in op.answer]
        strangers = [job["name"] for job in op.answer if op.args["names"] and job["name"] not in op.args["names"]]
        if places != sorted(set(places)) or strangers or len(places) > op.args["limit"]:
            yield Violation("best first", f"{op.id} claimed {places} of {op.args}; not asked for: {strangers}")


def oldest_first(history: History) -> Iterator[Violation]:
    """Of two posts that did not overlap, the later one has the larger sequence."""
    first: dict[str, Event] = {}
    purged = {uuid for uuid, events in history.jobs.items() if of_kind(events, "purge")}
    for uuid, events in history.jobs.items():
        posts = [event for event in of_kind(events, "post") if event.may_have_happened]
        if posts and posts[0].is_ok and posts[0].shown["uuid"] == uuid and uuid not in purged:
            first[uuid] = posts[0]
    by_end = sorted(first.values(), key=lambda event: event.end)
    by_start = sorted(first.values(), key=lambda event: event.start)
    index, before = 0, None
    for post in by_start:
        while index < len(by_end) and by_end[index].end < post.start:
            if before is None or by_end[index].shown["sequence"] > before.shown["sequence"]:
                before = by_end[index]
            index += 1
        if before is not None and before.shown["sequence"] >= post.shown["sequence"]:
            yield violation("oldest first", post.uuid, before, post)


def attempts_are_bounded(history: History) -> Iterator[Violation]:
    """A claim that is released does not end for a fault of the job, so another attempt may follow the last one."""
    for uuid, events in history.jobs.items():
        if _may_be_replaced(events):
            continue
        for grant in grants(events):
            released = [event for event in of_kind(events, "release") if event.may_lie_between(0.0, grant.end)]
            most, attempts = grant.shown["max_attempts"], grant.shown["attempts"]
            if most is not None and attempts > most + len(released):
                yield violation("poison stops", uuid, grant, text=f"attempt {attempts} of {most}")


def audits_find_nothing(history: History) -> Iterator[Violation]:
    for op in history.ops:
        if op.op == "audit" and op.answer:
            yield Violation("a clean audit", f"{op.id} beside work: {op.answer[:3]}")


def only_our_errors(history: History) -> Iterator[Violation]:
    for op in history.ops:
        if op.outcome == "raw":
            yield Violation("only our errors", f"{op.id} {op.op} {op.args}: {op.error}")


def calls_end(history: History) -> Iterator[Violation]:
    for op in history.ops:
        stopped = sum(fault.overlap(op.start, op.end) for fault in history.faults if fault.whom == op.process)
        took = op.end - op.start - stopped
        if op.end != float("inf") and took > history.rules.longest_call:
            yield Violation("every call ends", f"{op.id} {op.op} took {took:.1f} s: {op.outcome} {op.error}")


CHECKS: tuple[Check, ...] = (
    consumed_once, one_end_of_a_claim, gone_stays_gone, purged_is_gone, tokens_rise, nothing_under_a_stale_token,
    not_before_its_expiry, kept_until_its_expiry, not_before_it_is_due, best_first, oldest_first,
    attempts_are_bounded, audits_find_nothing, only_our_errors, calls_end,
)  # fmt: skip


def violation(promise: str, uuid: str, *events: Event, text: str = "") -> Violation:
    told = "; ".join(str(event) for event in events)
    return Violation(promise, f"job {uuid}: {text}{': ' if text else ''}{told}")
