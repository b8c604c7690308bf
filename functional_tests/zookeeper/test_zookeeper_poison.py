"""Znodes of any bytes harm nobody but themselves, and what a newer jobboard wrote is left alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from harnesses.fixtures import a_harness, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, a_plain_client, path_of, root_of
from kazoo.client import KazooClient
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import (
    BoardUnavailable,
    Entity,
    Every,
    JobBoard,
    JobBoardError,
    JobState,
    LogBook,
    NotFound,
    Posting,
    Schedule,
)
from jobboard.backends import warn_once
from jobboard.backends.zookeeper import audit
from jobboard.testing.contract.clockwork import firing

LONG = 600.0

#: What no field of anything can be.
BAD_VALUES: list[Any] = [
    None, 7, -1, 2**62, True, 1.5, float("nan"), 1e300, "", "a//b", "\0", "CLAIMED", b"", b"\xff", [], ["a//b"],
    [[7]], {"a": 7},
]  # fmt: skip

BAD_BYTES = [
    b"", b"\xc1", b"\x90" * 9, b"\x91" * 3000, b"\xdd\x7f\xff\xff\xff", b"\xa2\xff\xfe",
    *(msgpack.packb(value) for value in (
        None, 7, "text", [], [1], ["alias"], ["alias", 7], ["alias", "a//b"], ["alias", "\0"], [["alias"]], {},
        [0] * 21, [1] * 21, ["x"] * 21,
    )),
]  # fmt: skip

server = a_server(ZooKeeperServer)
harness = a_harness(ZooKeeperHarness)
operator = a_plain_client()


CALLS: dict[str, Callable[[JobBoard, str], object]] = {
    "get": lambda board, uuid: board.get(uuid).record,
    "find_owner": lambda board, uuid: board.find_owner(uuid),
    "claim": lambda board, uuid: board.claim(uuid, "bob", LONG),
    "release": lambda board, uuid: board.release(board.get(uuid), reason="why"),
    "cancel": lambda board, uuid: board.cancel(uuid),
    "restore": lambda board, uuid: board.restore(uuid),
    "trash": lambda board, uuid: board.trash(uuid, by="an operator"),
    "purge": lambda board, uuid: board.purge(uuid),
}


def harms_nobody(harness: ZooKeeperHarness, board: JobBoard, good: list[str], bad: list[str]) -> None:
    """Look at the board in every way, as a client that knew it before and as a new one; then work the good jobs off."""
    for reader in (board, harness.board(board.name)):
        reader.stats()
        reader.audit()
        assert set(good) <= {job.uuid for job in reader.wait(5)}
        assert set(good) <= {job.uuid for job in reader.iterjobs()}
        for job in reader.trashed():
            assert (job.record, job.history) is not None
        assert reader.entities() == []
    claimed = [job for _ in range(3) for job in board.claim_next("alice", limit=500, expiry=LONG)]
    assert set(good) <= {job.uuid for job in claimed}
    for job in claimed:
        board.consume(job, "alice")
    for number, uuid in enumerate(bad):
        name = list(CALLS)[number % len(CALLS)]
        try:
            CALLS[name](board, uuid)
        except JobBoardError:
            continue
    # A job with several faults is mended of one at a time.
    for _ in range(3):
        board.audit(repair=True)
    assert board.audit() == []
    job = board.post("rotate")
    assert board.claim_next("alice", names=["rotate"]) == [job]


def test_a_record_with_any_field_damaged(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    wrong = [None, 7, float("nan"), "a//b", b"\xff", [[7]]]
    board = harness.board()
    good = [board.post("resize").uuid]
    model = board.post("resize", key="k", run_at=None)
    board.claim(model, "alice", LONG)
    board.checkpoint(model, "alice", {"text": "x" * 5000})
    parts = msgpack.unpackb(operator.get(path_of(board, model.uuid))[0])
    notes, flags, values = parts[17], parts[19], parts[20]
    damaged = [[*parts[:place], value, *parts[place + 1 :]] for place in range(len(parts)) for value in wrong]
    damaged += [
        [*parts[:17], [[*notes[0][:place], value, *notes[0][place + 1 :]]], *parts[18:]]
        for place in range(5)
        for value in wrong
    ]
    damaged += [[*parts[:20], [*values[:place], value, *values[place + 1 :]]] for place in range(5) for value in wrong]
    damaged += [[*parts[:19], flags[:2], values], [*parts[:19], [True] * 5, values], parts[:-1], [*parts, 7]]
    bad = [
        job.uuid
        for part in range(0, len(damaged), 100)
        for job in board.post_many([Posting("resize") for _ in range(100)])
    ]
    good.append(board.post("resize").uuid)
    transaction = operator.transaction()
    for uuid, fields in zip(bad, damaged, strict=False):
        # The blob and the key are the model's; only this job's own fields are looked at.
        transaction.set_data(path_of(board, uuid), msgpack.packb(fields))
    transaction.commit()
    board.trash(model, "alice")
    harms_nobody(harness, board, good, bad)


def test_a_record_of_any_bytes(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board = harness.board()
    good = [board.post("resize").uuid]
    bad = {
        job.uuid: raw
        for job, raw in zip(board.post_many([Posting("resize") for _ in BAD_BYTES]), BAD_BYTES, strict=True)
    }
    good.append(board.post("resize").uuid)
    for uuid, raw in bad.items():
        operator.set(path_of(board, uuid), raw)
    assert [job.uuid for job in board.iterjobs()] == good
    assert {job.uuid: job.raw for job in board.trashed()} == bad
    harms_nobody(harness, board, good, list(bad))


def test_lines_of_the_log_of_any_bytes(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board, other = harness.board(), None
    first = board.post("resize")
    other = harness.board(board.name)
    assert other.job_count == 1
    log = f"{root_of(board)}/log/0"
    items, gone, told, schedules = msgpack.unpackb(operator.get(f"{log}/{max(operator.get_children(log))}")[0])
    lines = [*BAD_BYTES, *(msgpack.packb([items, gone, told, value]) for value in BAD_VALUES)]
    lines += [msgpack.packb([items, value, told, schedules]) for value in BAD_VALUES]
    for row, place in ((items[0], 0), (told[0], 2)):
        for field in range(len(row)):
            for value in BAD_VALUES:
                parts = [items, gone, told, schedules]
                parts[place] = [[*row[:field], value, *row[field + 1 :]]]
                lines.append(msgpack.packb(parts))
    lines += [msgpack.packb([items, gone, told, [row]]) for row in ([7, True, 1.0], ["x", True, float("nan")], ["x"])]
    other.subscribe(lambda event: None)
    for number in range(0, len(lines), 25):
        for line in lines[number : number + 25]:
            operator.create(f"{log}/c-", line, sequence=True)
        assert first in list(other.iterjobs(states=list(JobState)))
    job = board.post("resize")
    assert {first.uuid, job.uuid} <= {job.uuid for job in other.iterjobs()}


def test_entities_of_any_bytes(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board = harness.board()
    good = Entity("conductor", "good")
    board.register_entity(good)
    path = f"{root_of(board)}/entities/conductor:good"
    parts = msgpack.unpackb(operator.get(path)[0])
    rows = [*BAD_BYTES, *(msgpack.packb([*parts[:n], v, *parts[n + 1 :]]) for n in range(5) for v in BAD_VALUES)]
    for number, raw in enumerate(rows):
        operator.create(f"{root_of(board)}/entities/conductor:{number}", raw)
    assert [entity.name for entity in board.entities() if entity.alive].count("good") >= 1
    board.remove_entity(good)
    board._backend.maintenance.tidy(100)


def test_books_of_any_bytes(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board = harness.board()
    good = LogBook("journal")
    board.save_book(good)
    for raw in BAD_BYTES:
        bad = LogBook("journal")
        board.save_book(bad)
        operator.set(board._backend._layout.book(bad.uuid), raw)  # type: ignore[attr-defined]
        for call in (lambda bad=bad: board.load_book(bad.uuid), lambda bad=bad: board.save_book(bad)):
            with pytest.raises(BoardUnavailable, match="can't be decoded"):
                call()
        board.destroy_book(bad.uuid)
        with pytest.raises(NotFound):
            board.load_book(bad.uuid)
    assert board.load_book(good.uuid).name == "journal"


def test_pauses_of_any_bytes_are_said_to_be_damaged(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board = harness.board()
    job = board.post("resize")
    rows = [raw for raw in BAD_BYTES if raw not in (b"", msgpack.packb([]))]
    rows += [msgpack.packb(value) for value in ("abc", {"a": 7}, [7], [b"x"], [[]])]
    harmless = {msgpack.packb(value) for value in (["alias"], ["alias", "a//b"], ["alias", "\0"], ["x"] * 21)}
    for raw in rows:
        if raw in harmless:
            continue
        operator.set(f"{root_of(board)}/paused", raw)
        calls: list[Callable[[], object]] = [
            board.paused,
            lambda: board.claim(job, "alice"),
            lambda: list(board.wait(0)),
        ]
        for call in calls:
            with pytest.raises(BoardUnavailable, match="paused is damaged"):
                call()
    operator.set(f"{root_of(board)}/paused", b"")
    assert board.claim_next("alice") == [job]


def test_schedules_of_any_bytes(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board = harness.board()
    board.schedules.add(Schedule("good", Every(hours=1), "resize"))
    folder = f"{root_of(board)}/schedules"
    parts = msgpack.unpackb(operator.get(_place_of(board, operator, "good"))[0])
    rows = [*BAD_BYTES, *(msgpack.packb([*parts[:n], v, *parts[n + 1 :]]) for n in range(3) for v in BAD_VALUES)]
    for number, raw in enumerate(rows):
        board.schedules.add(Schedule(f"bad{number}", Every(hours=1), "resize"))
        operator.set(_place_of(board, operator, f"bad{number}"), raw)
    assert operator.exists(folder) is not None
    for reader in (board, harness.board(board.name)):
        assert "good" in [schedule.id for schedule in reader.schedules]
        firing(reader).fire_due(500)
        assert reader.schedules.get("good").id == "good"
    for number in range(len(rows)):
        board.schedules.remove(f"bad{number}")
    assert [schedule.id for schedule in board.schedules] == ["good"]
    assert board.schedules.unreadable() == []


def _place_of(board: JobBoard, operator: KazooClient, id: str) -> str:
    path: str = board._backend._layout.schedule(id)  # type: ignore[attr-defined]
    assert operator.exists(path)
    return path


@pytest.mark.parametrize("raw", [b"", b"a//b", b"\0", b"\xff" * 20, b"/", b"no-job"])
def test_a_key_of_any_bytes_is_nobodys(harness: ZooKeeperHarness, operator: KazooClient, raw: bytes) -> None:
    board = harness.board()
    job = board.post("resize", key="k")
    path = board._backend._layout.key("resize", "k")  # type: ignore[attr-defined]
    operator.set(path, raw)
    with pytest.raises(NotFound):
        board.find("resize", "k")
    with pytest.raises(JobBoardError):
        board.post("resize", key="k", if_exists="keep")
    assert [found.repaired for found in board.audit(repair=True)] == [True]
    assert board.find("resize", "k") == job


# -- newer -------------------------------------------------------------------------------------------------------------


def test_a_job_of_a_newer_format_is_left_alone(
    harness: ZooKeeperHarness, operator: KazooClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warn_once, "_warned", set())
    monkeypatch.setattr(audit, "MIN_BLOB_AGE", -1.0)
    board = harness.board()
    newer = board.post("resize", key="k", details={"text": "x" * 5000})
    others = board.post_many([Posting("resize") for _ in range(3)])
    path = path_of(board, newer.uuid)
    fields = msgpack.unpackb(operator.get(path)[0])
    raw = msgpack.packb([3, {"all": "new"}, *fields[2:], "more"])
    operator.set(path, raw)
    caplog.set_level(logging.WARNING, "jobboard")
    for reader in (board, harness.board(board.name)):
        assert list(reader.iterjobs()) == others
        assert set(reader.wait(5)) == set(others)
        assert list(reader.trashed()) == []
        assert reader.audit(repair=True) == []
        with pytest.raises(NotFound):
            reader.claim(newer.uuid, "alice")
        with pytest.raises(BoardUnavailable, match="upgrade this client"):
            reader.post("resize", key="k", if_exists="keep")
    assert board.claim_next("alice", limit=9, expiry=LONG) == others
    assert list(board.wait(0)) == []
    assert operator.get(path)[0] == raw
    assert [line.message.split(",")[0] for line in caplog.records if "newer" in line.message] == [
        "jobs of format 3 are left to newer clients"
    ]
    # A client that can read it finds all of it.
    fields[0] = 1
    operator.set(path, msgpack.packb(fields))
    fresh = harness.board(board.name)
    assert fresh.find("resize", "k").details == {"text": "x" * 5000}
    assert fresh.audit() == []
