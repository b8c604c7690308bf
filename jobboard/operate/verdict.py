"""Judges an overview: is a board well, does it want attention, or is work not being done?"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from jobboard.backends.findings import Holder, Persistence, Shortage
from jobboard.operate.clock_findings import told_set_back
from jobboard.operate.conductors import FilledSlots, GoneConductor, filled_slots
from jobboard.operate.failing import Attempts, told_failing
from jobboard.operate.overview import NameOverview, Overview
from jobboard.operate.pasting import argument
from jobboard.operate.schedule_findings import told_missed, told_pause_of_all, told_pauses, told_skips
from jobboard.operate.silence import (
    MAX_TOLD,
    Silence,
    fallen_silent,
    jobs_held,
    last_heard,
    told_silence,
    when_claims_end,
)
from jobboard.operate.trash_findings import causes_of, told_not_begun, told_parent, told_parents, told_trash
from jobboard.operate.views import paused_sentences
from jobboard.operate.why_limited import paused_lane
from jobboard.participants import Entity, handled, is_quiet, names_of, number_of, runs_of, unsent_of
from jobboard.text import duration

#: How many conductors that went away are told, and how many names of what waits for one.
MAX_GONE, MAX_NAMED = 5, 3
#: How much longer than a restart an outage of what all share may take before it is bad that nobody claims.
_OUTAGE = 3
#: From how many failures of a job on the strict lane that waits for it is told of.
_MANY_FAILED = 3


class Verdict(enum.IntEnum):
    """How a board is; the number is the exit status of ``jobboard status``."""

    WELL = 0
    ATTENTION = 1
    BAD = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not well.

    :ivar kind: a word for programs.
    :ivar about: the job name, the job, the participant or the schedule that it is about.
    :ivar said: sentences for people.
    :ivar cure: what to type, as the last sentences, as for a :class:`~jobboard.operate.reason.Reason`.
    """

    verdict: Verdict
    kind: str
    about: str | None
    said: str
    cure: str = ""

    @property
    def text(self) -> str:
        """All sentences."""
        return f"{self.said} {self.cure}".rstrip()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a board may do and still be well; in seconds.

    :ivar wait: how long the next job of a name may wait.
    :ivar run: how long a handler may run.
    :ivar unhandled: how long jobs may wait without a conductor that claims them, such as during a restart. If ``wait``
        is not shorter, also while a conductor that went away is not replaced, or while another name has all slots.
    :ivar overdue: a schedule may be so late.
    :ivar held_back: how long a transaction may keep the store from deleting old rows.
    """

    wait: float = 900.0
    run: float = 3600.0
    unhandled: float = 60.0
    overdue: float = 60.0
    held_back: float = 600.0


def findings(
    overview: Overview, limits: Limits | None = None, attempts: Mapping[str, Attempts] = MappingProxyType({})
) -> list[Finding]:
    """Return what is not well, the worst first; [] if all is.

    Kinds: ``store`` (only of :func:`unreachable`), ``no_conductor``, ``unhealthy``, ``stuck``, ``unsent``,
    ``runs_long``, ``conductor_gone``, ``fewer_conductors``, ``silent``, ``one_name``, ``waits_long``,
    ``board_paused``, ``name_paused``, ``lane_paused``, ``lane_idle``, ``lane_held``, ``parent_failed``,
    ``parents_failed``, ``not_begun``, ``overdue``, ``no_scheduler``, ``schedulers_paused``, ``schedule_paused``,
    ``set_aside``, ``skips``, ``misses``, ``no_handler``, ``failing``, ``trash``, ``held_back``, ``short``,
    ``not_durable``, ``clock``.

    :param attempts: those of names that somebody has counted.
    """
    known = limits or Limits()
    found = [
        *_of_pauses(overview),
        *_of_lanes(overview, known),
        *_of_failed_parents(overview),
        *_of_names(overview, known),
        *_of_conductors(overview, known),
        *_of_gone(overview, known),
        *_of_filled_slots(overview, known),
    ]
    failing = list(told_failing(overview.failures, attempts))
    found += [Finding(Verdict.ATTENTION, "failing", *told) for told in failing]
    found += _of_schedules(overview, known)
    found += _of_trash(overview, {name for name, *_ in failing})
    found += of_holders(overview.holders, known)
    found += of_shortages(overview.shortages)
    found += of_persistence(overview.persistence)
    if overview.set_back is not None:
        found.append(Finding(Verdict.ATTENTION, "clock", None, *told_set_back(overview.set_back)))
    return sorted(found, key=lambda finding: -finding.verdict)


def unreachable(error: Exception) -> Finding:
    """Return the finding of a board whose store can't be used."""
    return Finding(Verdict.BAD, "store", None, str(error))


def worst(found: list[Finding]) -> Verdict:
    """Return the verdict on a board with these findings."""
    return max((finding.verdict for finding in found), default=Verdict.WELL)


def _of_pauses(overview: Overview) -> Iterator[Finding]:
    for name, text in paused_sentences(overview.pauses).items():
        if name is None:
            yield Finding(Verdict.ATTENTION, "board_paused", None, text)
        else:
            yield Finding(Verdict.ATTENTION, "name_paused", name, text)


def _of_lanes(overview: Overview, limits: Limits) -> Iterator[Finding]:
    for limit in overview.limits:
        # One with an end is no business of an operator's: it goes on by itself.
        if limit.paused and limit.paused_until is None:
            yield Finding(Verdict.ATTENTION, "lane_paused", limit.lane, paused_lane(limit))
    for lane in overview.idle_lanes:
        names, number = " and ".join(map(repr, lane.names)), lane.blocked
        waiting = f"{number} job{'s' * (number != 1)} of the lane {lane.lane} wait{'s' * (number == 1)}"
        text = f"{waiting} for slots of jobs named {names}, and no conductor that is alive claims these."
        verdict, cure = _nobody_claims(overview, limits, lane.names, lane.oldest)
        yield Finding(verdict, "lane_idle", lane.lane, text, f"{cure}.")
    for held in overview.held_lanes:
        is_failing = held.failures >= _MANY_FAILED
        if not is_failing and held.oldest <= limits.wait:
            continue
        waiting = f"{held.blocked} job{'s' * (held.blocked != 1)} of the strict lane {held.lane}"
        which = "fails" if is_failing else "runs"
        text = f"{waiting} wait{'s' * (held.blocked == 1)} for one that {which} again and again: {held.text}."
        run_now = f"jobboard run-now {held.uuid}"
        mended = (
            f"Once the cause is mended: {run_now}" if is_failing else "If it waits for one of these, it waits for ever"
        )
        cure = f"{mended}; or take it out with: jobboard trash {held.uuid}"
        yield Finding(Verdict.ATTENTION, "lane_held", held.lane, text, cure)


def _of_failed_parents(overview: Overview) -> Iterator[Finding]:
    for cause in causes_of(overview.failed_parents):
        if len(cause) == 1:
            yield Finding(Verdict.ATTENTION, "parent_failed", cause[0].uuid, *told_parent(cause[0]))
        else:
            has_more = sum(group.jobs for group in overview.trash) < overview.stats.trashed
            yield Finding(Verdict.ATTENTION, "parents_failed", cause[0].name, *told_parents(cause, has_more))
    if alone := [one for one in overview.missed if not one.is_below]:
        yield Finding(Verdict.ATTENTION, "not_begun", alone[0].uuid, *told_not_begun(alone))


def _of_names(overview: Overview, limits: Limits) -> Iterator[Finding]:
    for name in overview.names:
        if not name.numbers.unclaimed or name.paused:
            continue
        # Of a name whose next job was not read, none waits longer than the oldest of the board.
        waits = (overview.stats.oldest_unclaimed or 0.0) if name.next_waits is None else name.next_waits
        if not name.conductors:
            verdict, cure = _nobody_claims(overview, limits, [name.name], waits)
            text = f"{_waiting(name)}, and no conductor that is alive claims that name."
            yield Finding(verdict, "no_conductor", name.name, text, f"{cure}, or trash them.")
        elif name.next_waits is not None and name.next_waits > limits.wait:
            yield Finding(Verdict.ATTENTION, "waits_long", name.name, f"{_waiting(name)}{_full(name)}.")


def _nobody_claims(overview: Overview, limits: Limits, names: Sequence[str], waits: float) -> tuple[Verdict, str]:
    """Judge that no conductor claims jobs that wait for so long, and say what to do; one may have been restarted."""
    silent = last_heard(overview.entities, names, overview.at)
    restart = limits.unhandled * (_OUTAGE if _silence(overview) else 1)
    if silent <= restart:
        return Verdict.ATTENTION, f"Wait for one that does, last heard of {duration(silent)} ago"
    quiet = [one.name for one in overview.entities if one.alive and is_quiet(one) and handled(one, names)]
    cure = f"Let one claim again (jobboard quiet --off {argument(quiet[0])})" if quiet else "Start one"
    return Verdict.BAD if waits > limits.unhandled else Verdict.ATTENTION, cure


def _full(name: NameOverview) -> str:
    """Say that as many jobs of a name are claimed as its limit says, if it is so."""
    claimed = name.numbers.claimed
    return f"; their limit has {claimed} of {name.limit}" if name.limit is not None and claimed >= name.limit else ""


def _waiting(name: NameOverview) -> str:
    blocked = name.numbers.blocked
    number = name.numbers.unclaimed + blocked
    behind = f", {blocked} of them blocked" if blocked else ""
    since = "" if name.next_waits is None else f", the next one for {duration(name.next_waits)}"
    return f"{number} job{'s' * (number != 1)} named {name.name!r} wait{'s' * (number == 1)}{behind}{since}"


def _of_conductors(overview: Overview, limits: Limits) -> Iterator[Finding]:
    for entity in overview.entities:
        if entity.kind != "conductor" or not entity.alive:
            continue
        stuck = number_of(entity, "stuck")
        slots = f"{entity.name} has {stuck} stuck slot{'s' * (stuck != 1)}"
        if entity.metadata.get("healthy") is False:
            yield Finding(Verdict.BAD, "unhealthy", entity.name, _unhealthy(entity, slots))
        elif stuck:
            text = f"{slots}, in handlers of {_listed(entity, 'stuck_names')} that outlast their claims."
            yield Finding(Verdict.ATTENTION, "stuck", entity.name, text)
        if unsent := unsent_of(entity):
            ends = ", ".join(
                f"job {end.uuid} ({end.name!r}, for {duration(end.seconds)}: {end.error})" for end in unsent
            )
            text = f"{entity.name} has run these, and the store refuses their ends: {ends}. It tries on."
            yield Finding(Verdict.ATTENTION, "unsent", entity.name, text)
        if long := [run for run in runs_of(entity) if run.seconds > limits.run]:
            runs = ", ".join(f"{run.name!r} for {duration(run.seconds)} (job {run.uuid})" for run in long)
            text = f"{entity.name} runs {runs}. Does it hang?"
            yield Finding(Verdict.ATTENTION, "runs_long", entity.name, text)


def _waiting_names(overview: Overview, limits: Limits) -> list[NameOverview]:
    """Return the names whose next job waits for longer than a restart takes, and nothing but conductors holds it."""
    return [
        name
        for name in overview.names
        if (name.next_waits or 0.0) > min(limits.unhandled, limits.wait)
        and name.numbers.unclaimed
        and not (name.paused or _full(name))
    ]


def _of_gone(overview: Overview, limits: Limits) -> Iterator[Finding]:
    waiting = {name.name for name in _waiting_names(overview, limits)}
    silence = _silence(overview)
    if silence is not None:
        yield Finding(Verdict.ATTENTION, "silent", None, told_silence(silence, overview.gone))
    missed = {one: sorted(handled(one.entity, waiting)) if not one.is_replaced else [] for one in overview.gone}
    apart = [one for one in overview.gone if silence is None or one.name not in silence.names]
    told = [one for one in apart if one.held or missed[one]]
    for one in sorted(told, key=lambda one: not one.held)[:MAX_GONE]:
        yield Finding(Verdict.ATTENTION, "conductor_gone", one.name, *_gone(one, missed[one]))
    yield from _of_capacity(overview, limits, [one for one in apart if one not in told])


def _of_capacity(overview: Overview, limits: Limits, gone: Sequence[GoneConductor]) -> Iterator[Finding]:
    """Tell for some minutes of conductors that are gone for longer than a restart takes, and have work waiting."""
    work = {name.name for name in overview.names if name.numbers.unclaimed and not name.paused}
    away = [one for one in gone if not one.is_replaced and limits.unhandled < one.silent <= MAX_TOLD]
    lost = [one for one in away if handled(one.entity, work)]
    if lost:
        alive = sum(entity.alive and entity.kind == "conductor" for entity in overview.entities)
        number = f"{len(lost)} of {len(lost) + alive} conductors {'is' if len(lost) == 1 else 'are'} gone"
        since = f"last heard of {duration(lost[0].silent)} ago"
        text = f"{number}, {lost[0].name} was {since}, while jobs of their names wait."
        yield Finding(Verdict.ATTENTION, "fewer_conductors", lost[0].name, text, "See: jobboard entities")


def _silence(overview: Overview) -> Silence | None:
    """Return those that fell silent together; None where nothing has to be done meanwhile."""
    stats, replaced = overview.stats, {one.name for one in overview.gone if one.is_replaced}
    is_needed = stats.unclaimed or stats.claimed or stats.blocked or overview.schedules.active
    return fallen_silent(overview.entities, replaced, overview.at) if is_needed else None


def _gone(one: GoneConductor, missed: Sequence[str]) -> tuple[str, str]:
    parts = [f"{one.name} was last heard of {duration(one.silent)} ago, and did not stop in good order."]
    if missed:
        parts.append(f"Jobs that it ran wait ({_first(missed)}), and no conductor has begun in its place: start one.")
    if one.held:
        release = f"jobboard release --owner {shlex.quote(one.name)}"
        parts.append(f"It holds {jobs_held([one])}, {when_claims_end([one])}.")
        return " ".join(parts), f"If it is dead, give them back now with: {release}"
    return " ".join(parts), "See: jobboard entities"


def _of_filled_slots(overview: Overview, limits: Limits) -> Iterator[Finding]:
    waiting = {name.name: name for name in _waiting_names(overview, limits)}
    for one in filled_slots(overview.entities, waiting):
        yield Finding(Verdict.ATTENTION, "one_name", one.name, *_filled(one, [waiting[name] for name in one.waiting]))


def _filled(one: FilledSlots, waiting: Sequence[NameOverview]) -> tuple[str, str]:
    conductors = f"{one.conductors} conductor{'s' * (one.conductors != 1)}"
    longest = max(waiting, key=lambda name: name.next_waits or 0.0)
    others = f", and jobs of {len(waiting) - 1} more" if len(waiting) > 1 else ""
    name = shlex.quote(one.name)
    text = f"Jobs named {one.name!r} have all {one.slots} slots of {conductors}, while {_waiting(longest)}{others}."
    return text, (
        f"See them with: jobboard ls --state claimed --job-name {name}. Keep slots for others with: "
        f"jobboard limits set --job-name {name} --running {max(1, one.slots // 2)}"
    )


def _first(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = [f"and {len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []
    return ", ".join([*map(repr, names[:MAX_NAMED]), *more])


def _unhealthy(entity: Entity, slots: str) -> str:
    if fault := entity.metadata.get("fault"):
        return f"{entity.name} can't run anything for now: {fault}."
    return f"{slots}, and claims no more jobs named {_listed(entity, 'refused')}. Start it anew."


def _listed(entity: Entity, which: str) -> str:
    return ", ".join(map(repr, sorted(names_of(entity, which)))) or "unknown names"


def _of_schedules(overview: Overview, limits: Limits) -> Iterator[Finding]:
    schedules = overview.schedules
    or_more = "" if schedules.complete else " or more"
    is_watched = any(entity.kind == "scheduler" and entity.alive for entity in overview.entities)
    if schedules.active and not is_watched:
        text = f"No scheduler is alive; active schedules: {schedules.active}{or_more}."
        cure = "Start one with: jobboard scheduler"
        yield Finding(Verdict.ATTENTION, "no_scheduler", None, text, cure)
    if schedules.all_paused:
        text = told_pause_of_all(schedules.all_paused_since, schedules.all_paused_note)
        cure = "See: jobboard schedule resume --all"
        yield Finding(Verdict.ATTENTION, "schedulers_paused", None, text, cure)
        return
    late = {id: seconds for id, seconds in schedules.overdue.items() if seconds > limits.overdue}
    if late:
        latest = max(late, key=late.__getitem__)
        number = f"{len(late)}{or_more} schedules are" if len(late) > 1 else "1 schedule is"
        text = f"{number} overdue: {latest!r} for {duration(late[latest])}."
        yield Finding(Verdict.ATTENTION if is_watched else Verdict.BAD, "overdue", latest, text)
    if aside := schedules.set_aside:
        number = f"{len(aside)}{or_more} schedules are" if len(aside) > 1 else "1 schedule is"
        text = f"{number} set aside: {aside[0]!r}."
        yield Finding(Verdict.ATTENTION, "set_aside", aside[0], text, "See: jobboard schedule ls")
    for told in told_missed(schedules.missed, or_more):
        yield Finding(Verdict.ATTENTION, "misses", *told)
    for told in told_skips(schedules.skipped, or_more):
        yield Finding(Verdict.ATTENTION, "skips", *told)
    for told in told_pauses(schedules.pauses, schedules.paused, or_more):
        yield Finding(Verdict.ATTENTION, "schedule_paused", *told)
    yield from of_unhandled(schedules.unhandled)


def of_unhandled(schedules: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each job name that schedules post, and no conductor that is alive has a handler for.

    :param schedules: the job names by the ids of the schedules.
    """
    for name in sorted(set(schedules.values())):
        first, *others = [id for id in schedules if schedules[id] == name]
        more = f" (and {len(others)} more)" if others else ""
        text = f"Schedule {first!r}{more} posts jobs named {name!r}; no conductor that is alive has a handler for them."
        yield Finding(Verdict.ATTENTION, "no_handler", first, text)


def _of_trash(overview: Overview, failing: Collection[str]) -> Iterator[Finding]:
    told_of = [one for one in overview.failures if one.name in failing]
    for told in told_trash(overview.names, overview.trash, [*overview.failed_parents, *overview.missed], told_of):
        yield Finding(Verdict.ATTENTION, "trash", *told)


def of_holders(holders: Sequence[Holder], limits: Limits) -> Iterator[Finding]:
    """Yield the one finding of what has kept the store from deleting old rows for too long."""
    late = [one for one in holders if one.seconds is None or one.seconds > limits.held_back]
    if late:
        first, more = late[0], len(late) - 1
        since = "" if first.seconds is None else f" for {duration(first.seconds)}"
        others = f", and {more} more" if more else ""
        text = f"{first.holder} holds back {first.held}{since}{others}; the tables grow until it ends."
        yield Finding(Verdict.ATTENTION, "held_back", first.name, _begun(text), f"End it: {first.end}")


def of_shortages(shortages: Sequence[Shortage]) -> Iterator[Finding]:
    """Yield a finding for each thing that the store runs short of; bad once it refuses changes."""
    for one in shortages:
        yield Finding(Verdict.BAD if one.is_full else Verdict.ATTENTION, "short", None, f"{_begun(one.text)}.")


def of_persistence(persistence: Persistence | None) -> Iterator[Finding]:
    """Yield a finding for a store that could keep what it acknowledges, and is not set up to."""
    if persistence is not None and persistence.kept is False:
        yield Finding(Verdict.ATTENTION, "not_durable", None, f"{_begun(persistence.text)}.")


def _begun(text: str) -> str:
    """Return a text with the first letter of a sentence."""
    return text[0].upper() + text[1:]
