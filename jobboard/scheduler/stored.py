"""A schedule as the bytes that stores keep: plain data that any client can read."""

from __future__ import annotations

from functools import lru_cache

import msgpack

from jobboard.errors import MissingExtra
from jobboard.scheduler.progress import Progress
from jobboard.scheduler.schedule import Schedule, schedule_from_plain
from jobboard.scheduler.triggers import Trigger, trigger_from_plain

_FORMAT = 1


def pack_schedule(schedule: Schedule, progress: Progress) -> bytes:
    """Return the bytes of a schedule and how far it has come."""
    return bytes(msgpack.packb([_FORMAT, schedule.to_plain(), progress.to_plain()], datetime=True))


def unpack_schedule(data: bytes) -> Schedule:
    """Return the schedule with its progress; raises ``ValueError`` on what :func:`pack_schedule` can't have made.

    ``MissingExtra`` is raised as such: nothing is wrong with a schedule of which this host lacks the trigger's package.
    """
    try:
        form, plain, progress = msgpack.unpackb(data, raw=False, strict_map_key=True, timestamp=3)
        if form != _FORMAT:
            raise ValueError(f"a schedule of format {form!r}; this version reads {_FORMAT}")
        return schedule_from_plain(plain, Progress.from_plain(progress), _trigger_of)
    except (ValueError, MissingExtra):
        raise
    except Exception as error:
        # Whatever bytes do to a decoder, a bad entry must harm nobody.
        raise ValueError(f"not a schedule: {error!r}") from None


def _trigger_of(plain: object) -> Trigger:
    return _known_trigger(msgpack.packb(plain))


@lru_cache(maxsize=1000)
def _known_trigger(packed: bytes) -> Trigger:
    """Return a trigger, which is immutable: many schedules have the same one, and each is read again and again."""
    return trigger_from_plain(msgpack.unpackb(packed))
