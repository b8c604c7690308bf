"""A schedule as the bytes that stores keep: plain data that any client can read."""

from __future__ import annotations

from dataclasses import replace

import msgpack

from jobboard.scheduler.progress import Progress
from jobboard.scheduler.schedule import Schedule, schedule_from_plain

_FORMAT = 1


def pack_schedule(schedule: Schedule, progress: Progress) -> bytes:
    """Return the bytes of a schedule and how far it has come."""
    return bytes(msgpack.packb([_FORMAT, schedule.to_plain(), progress.to_plain()], datetime=True))


def unpack_schedule(data: bytes) -> Schedule:
    """Return the schedule with its progress; raises ``ValueError`` on what :func:`pack_schedule` can't have made."""
    try:
        form, plain, progress = msgpack.unpackb(data, raw=False, strict_map_key=True, timestamp=3)
        if form != _FORMAT:
            raise ValueError(f"a schedule of format {form!r}; this version reads {_FORMAT}")
        return replace(schedule_from_plain(plain), progress=Progress.from_plain(progress))
    except ValueError:
        raise
    except Exception as error:
        # Whatever bytes do to a decoder, a bad entry must harm nobody.
        raise ValueError(f"not a schedule: {error!r}") from None
