"""Jitter: fire times moved later by a little, by everybody alike."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from jobboard.schedules.triggers.instants import SECOND, instant_of
from jobboard.validation import check_delay, check_text


def jitter_of(schedule_id: str, fire_time: datetime, jitter: float) -> timedelta:
    """Return by how much a fire time of a schedule is posted later: from 0 to less than ``jitter`` seconds.

    It is a hash of the schedule's id and the fire time: every scheduler computes the same one, again after a restart,
    while schedules that are due together spread evenly. The fire time itself, which names the job, does not move.

    :param fire_time: an aware datetime, before its jitter.
    :param jitter: seconds, 0 or more.
    """
    most = round(check_delay(jitter, "jitter") * SECOND)
    text = f"{check_text('schedule_id', schedule_id)}\0{instant_of('fire_time', fire_time)}"
    # 64 bits of a hash as a fraction of one, in whole numbers: no two machines may round it differently.
    fraction = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    return timedelta(microseconds=fraction * most >> 64)
