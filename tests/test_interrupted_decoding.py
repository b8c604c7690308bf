"""What a signal's handler raises while an entry is decoded is not taken for a fault of the entry."""

from __future__ import annotations

from collections.abc import Callable

import msgpack
import pytest

from jobboard import Every, Schedule
from jobboard.backends.kv.codec import items_of, unpack
from jobboard.codec import decode
from jobboard.payload import Payload, pack_payload, unpack_payload
from jobboard.schedules.progress import Progress
from jobboard.schedules.schedule import pack_schedule, unpack_schedule


class OutOfTime(Exception):
    """As a program raises from the handler of its alarm clock."""


class Interrupted(msgpack.Unpacker):  # type: ignore[misc]
    """A signal comes while it works."""

    def read_array_header(self) -> int:
        super().read_array_header()
        raise OutOfTime

    def unpack(self) -> object:
        super().unpack()
        raise OutOfTime


def interrupted(*arguments: object, **options: object) -> object:
    raise OutOfTime


POSTING = pack_payload(Payload({"n": 1}, schedule_id="s"))[0]
SCHEDULE = pack_schedule(Schedule("s", Every(hours=1), "resize"), Progress(0.0))


@pytest.mark.parametrize(
    "read",
    [
        lambda: decode(msgpack.packb({"n": 1})),
        lambda: unpack_payload(POSTING),
        lambda: unpack_schedule("s", SCHEDULE),
        lambda: items_of(msgpack.packb([]), ()),
        lambda: unpack(msgpack.packb([])),
    ],
    ids=["a value", "a posting", "a schedule", "of etcd", "of ZooKeeper"],
)
def test_a_good_entry_is_not_taken_for_a_bad_one(monkeypatch: pytest.MonkeyPatch, read: Callable[[], object]) -> None:
    read()
    monkeypatch.setattr(msgpack, "unpackb", interrupted)
    monkeypatch.setattr(msgpack, "Unpacker", Interrupted)
    with pytest.raises(OutOfTime):
        read()
