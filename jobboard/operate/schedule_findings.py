"""What is said of schedules that post nothing: paused ones, and those whose last fire times were skipped or missed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from jobboard.operate.pasting import argument
from jobboard.schedules.progress import HISTORY_LENGTH
from jobboard.text import in_one_line, utc

#: From how many fires on that a schedule has skipped one after the other it is told.
MANY_SKIPPED = 3
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def told_pause_of_all(since: datetime | None, note: str | None) -> str:
    """Return a sentence about the pause of all schedulers."""
    at = f" since {utc(since)}" if since else ""
    why = f": {in_one_line(note)}" if note else ""
    return f"All schedulers are paused{at}{why}."


def told_pauses(pauses: Mapping[str, str | None], number: int, or_more: str) -> Iterator[tuple[str, str, str]]:
    """Yield the id of one paused schedule, a sentence about all, and what to do.

    :param pauses: the notes of those that were read, by id.
    :param number: how many are paused.
    :param or_more: what follows a number: " or more" if not all schedules were read.
    """
    for id, note in list(pauses.items())[:1]:
        why = f": {in_one_line(note)}" if note else ""
        are = "is" if number == 2 and not or_more else "are"
        more = f" ({number - 1}{or_more or ' more'} {are} paused, too: jobboard schedule ls)" * (number > 1)
        cure = f"Resume it with: jobboard schedule resume {argument(id)}"
        yield id, f"Schedule {id!r} is paused{why}{more}.", cure


def told_skips(skipped: Mapping[str, int], or_more: str) -> Iterator[tuple[str, str, str]]:
    """Yield the schedule that has skipped most, how many others do, and what to do. Now and then is normal."""
    often = {id: number for id, number in skipped.items() if number >= MANY_SKIPPED}
    if often:
        most = max(often, key=often.__getitem__)
        # One line of the history may keep the schedule's source.
        number = f"{often[most]} fires{' or more' * (often[most] >= HISTORY_LENGTH - 1)}"
        text = f"Schedule {most!r} has skipped its last {number}{_others(len(often) - 1, or_more)}"
        cure = f"See: jobboard schedule show {argument(most)}"
        yield most, f"{text}: the jobs that it posted before have not ended.", cure


def told_missed(missed: Mapping[str, tuple[int, datetime | None]], or_more: str) -> Iterator[tuple[str, str, str]]:
    """Yield the schedule whose fire time was missed last, of how many others it is so, and what to do."""
    if missed:
        latest = max(missed, key=lambda id: missed[id][1] or _LONG_AGO)
        number, fire_time = missed[latest]
        at = f" of {utc(fire_time)}" if fire_time else ""
        which = f"fire{at} was" if number == 1 else f"{number} fires, the last{at}, were"
        name = argument(latest)
        see = f"See: jobboard schedule show {name}. Post it now with: jobboard schedule fire {name}"
        yield (
            latest,
            f"Schedule {latest!r} posted nothing: its last {which} missed{_others(len(missed) - 1, or_more)}.",
            see,
        )


def _others(number: int, or_more: str) -> str:
    """Say that it is so with other schedules."""
    others = f"{number}{or_more} other schedule{'s' * (number != 1 or bool(or_more))}"
    return f" (the same holds for {others})" if number else ""
