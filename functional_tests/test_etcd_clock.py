"""Whose time it is on an etcd board: the server's, read off its replies; and how places in the line sort."""

from __future__ import annotations

import random
import time
from email.utils import formatdate

import pytest
from etcd_harness import EtcdHarness
from etcd_servers import EtcdServer
from fixtures import a_harness, a_server

from jobboard import JobBoard, JobState
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.clock import ServerClock
from jobboard.backends.etcd.keys import moment_of, order_of
from jobboard.backends.etcd.txn import MOST_OPS, delete, many
from jobboard.testing import eventually

LONG = 600.0
HOUR = 3600.0


class Clocks:
    """A client's clock and a server's, which is so many seconds ahead; both stand still until they are moved."""

    def __init__(self, ahead: float) -> None:
        self.time, self.ahead = 1_700_000_000.0, ahead
        self.clock = ServerClock(lambda: self.time)

    def reply(self, took: float = 0.002) -> None:
        date = formatdate(int(self.time + took / 2 + self.ahead), usegmt=True)
        self.time += took
        self.clock.learn(date, took)

    @property
    def fault(self) -> float:
        return abs(self.clock.now() - (self.time + self.ahead))


@pytest.mark.parametrize("ahead", [-HOUR, -30.4, 2.5, HOUR])
def test_a_clock_that_is_off_is_put_right_by_the_first_reply(ahead: float) -> None:
    clocks = Clocks(ahead)
    clocks.reply()
    assert clocks.fault <= 1.01


@pytest.mark.parametrize("ahead", [-HOUR, -0.7, 1.3, HOUR])
def test_the_bounds_close_in_with_every_reply(ahead: float) -> None:
    clocks = Clocks(ahead)
    for _ in range(500):
        clocks.time += random.random() / 10
        clocks.reply()
    assert clocks.fault <= max(0.05, 0.05 + min(abs(ahead), 1.0) * (abs(ahead) < 1))


def test_a_clock_that_is_right_is_used_as_it_is() -> None:
    clocks = Clocks(0.0)
    for _ in range(100):
        clocks.time += 0.037
        clocks.reply()
        assert clocks.clock.offset == 0.0


def test_a_clock_that_is_set_meanwhile_is_followed() -> None:
    clocks = Clocks(0.0)
    clocks.reply()
    clocks.ahead = -HOUR
    clocks.reply()
    assert clocks.fault <= 1.01


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_a_reply_without_a_date_teaches_nothing(date: str | None) -> None:
    clock = ServerClock(lambda: 5.0)
    clock.learn(date, 1.0)
    assert clock.now() == 5.0


# -- on a server -------------------------------------------------------------------------------------------------------


server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)


def with_clock_off(board: JobBoard, seconds: float) -> JobBoard:
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    backend.gateway.clock = ServerClock(lambda: time.time() + seconds)
    return board


@pytest.mark.parametrize("off", [-HOUR, HOUR])
def test_a_client_whose_clock_is_off_neither_takes_nor_keeps_what_it_must_not(harness: EtcdHarness, off: float) -> None:
    right = harness.board()
    wrong = with_clock_off(harness.board(right.name), off)
    wrong.job_count  # noqa: B018, a reply to learn from
    held = right.post("resize")
    right.claim(held, "alice", 30.0)
    later = right.post("rotate", delay=30.0)
    assert wrong.claim_next("bob", expiry=LONG) == []
    assert (wrong.get(held.uuid).record.state, wrong.get(later.uuid).record.state) == (
        JobState.CLAIMED,
        JobState.DELAYED,
    )
    right.consume(held, "alice")
    soon = wrong.post("resize", delay=0.5)
    assert soon in right.wait(5)
    wrong.claim(soon, "bob", 1.0)
    eventually(lambda: right.get(soon.uuid).record.state is JobState.UNCLAIMED, within=5)


# -- places ------------------------------------------------------------------------------------------------------------


def test_places_sort_as_claims_go() -> None:
    numbers = [0, 9, 10, 99, 1_000, 10**15, 2**62]
    expected = [(priority, number) for priority in range(5, 0, -1) for number in numbers]
    assert sorted(random.sample(expected, len(expected)), key=lambda place: order_of(*place)) == expected


def test_moments_sort_by_time() -> None:
    moments = [0.0, 0.5, 9.0, 10.0, 1.7e9, 1.7e9 + 1e-5, 1e11]
    assert sorted(random.sample(moments, len(moments)), key=moment_of) == moments


@pytest.mark.parametrize("compares", [0, 1, 60, 101])
def test_no_transaction_lists_more_than_a_server_takes(compares: int) -> None:
    packed = many([delete(b"%d" % n) for n in range(600)], compares)
    assert len(packed) <= MOST_OPS
    inner = [step["request_txn"]["success"] for step in packed]
    assert sum(map(len, inner)) == 600
    assert max(map(len, inner)) + max(compares, len(packed)) <= MOST_OPS
