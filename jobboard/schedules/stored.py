"""A schedule as the bytes that stores keep: plain data that any client can read."""

from __future__ import annotations

from functools import lru_cache

import msgpack

from jobboard.codec import LARGEST, NewerFormat, check_format, decode
from jobboard.errors import MissingExtra
from jobboard.schedules.progress import Progress
from jobboard.schedules.schedule import Schedule, schedule_from_plain
from jobboard.schedules.triggers import Trigger, trigger_from_plain

#: Raise it with every change, also a new field or kind of trigger: an older reader leaves a newer format alone, and
#: sets aside what it can't make sense of.
_FORMAT = 1


def pack_schedule(schedule: Schedule, progress: Progress) -> bytes:
    """Return the bytes of a schedule and how far it has come."""
    return bytes(msgpack.packb([_FORMAT, schedule.to_plain(), progress.to_plain()], datetime=True))


def unpack_schedule(id: str, data: bytes) -> Schedule:
    """Return the schedule of this id with its progress.

    ``MissingExtra`` is raised as such: nothing is wrong with a schedule of which this host lacks the trigger's package.

    :raises NewerFormat: a newer jobboard packed it.
    :raises ValueError: :func:`pack_schedule` can't have made it.
    """
    try:
        # Its progress may take about as much as the largest details.
        content = decode(data, largest=2 * LARGEST)
        check_format("a schedule", content[0], _FORMAT)
        _, plain, progress = content
        schedule = schedule_from_plain(plain, Progress.from_plain(progress), _trigger_of)
    except (NewerFormat, MissingExtra):
        raise
    except Exception as error:
        # Whatever bytes do to a decoder, a bad entry must harm nobody.
        fault = str(error) if isinstance(error, ValueError) else repr(error)
        raise ValueError(f"not a schedule: {fault}") from None
    if schedule.id != id:
        raise ValueError("not a schedule: it has another one's id")
    return schedule


def _trigger_of(plain: object) -> Trigger:
    return _known_trigger(msgpack.packb(plain))


@lru_cache(maxsize=1000)
def _known_trigger(packed: bytes) -> Trigger:
    """Return a trigger, which is immutable: many schedules have the same one, and each is read again and again."""
    return trigger_from_plain(msgpack.unpackb(packed))
