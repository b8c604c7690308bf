"""Whose time it is on an etcd board: the server's, read off its replies; and how places in the line sort."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_harness, a_server
from harnesses.stepped_client import SteppedClient
from servers.etcd_servers import EtcdServer

from jobboard import BoardUnavailable
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.clock import ReplyClock
from jobboard.backends.etcd.keys import moment_of, order_of
from jobboard.backends.etcd.txn import MAX_OPS, delete, many
from jobboard.testing import eventually

HOUR = 3600.0


class Clocks:
    """A client's monotonic clock and a server's, which is so far ahead; both stand still until they are moved."""

    def __init__(self, ahead: float) -> None:
        self.time, self.ahead = random.random() * 1000, 1_700_000_000.0 + ahead
        self.clock = ReplyClock(lambda: self.time)

    @property
    def servers(self) -> float:
        return self.time + self.ahead

    def reply(self, there: float = 0.001, back: float = 0.001) -> None:
        sent = self.time
        self.time += there
        date = formatdate(int(self.servers), usegmt=True)
        self.time += back
        self.clock.learn_date(date, sent, self.time)

    def check(self) -> float:
        """Assert that the server's time is within the bounds, and return how far these are apart."""
        earliest, latest = self.clock.now(), self.clock.latest()
        assert earliest <= self.servers <= latest
        return latest - earliest


@pytest.mark.parametrize("ahead", [-HOUR, -30.4, 0.0, 2.5, HOUR])
def test_the_first_reply_bounds_the_time_to_a_second(ahead: float) -> None:
    clocks = Clocks(ahead)
    clocks.reply()
    assert clocks.check() < 1.01


def test_the_bounds_close_in_with_every_reply_and_never_leave_the_time_out() -> None:
    clocks = Clocks(random.random())
    for _ in range(500):
        clocks.time += random.random() / 10
        clocks.reply(random.random() / 100, random.random() / 100)
        clocks.check()
    assert clocks.check() < 0.1


def test_a_clock_that_runs_slower_or_faster_stays_within_the_bounds() -> None:
    clocks = Clocks(0.0)
    for _ in range(2_000):
        clocks.time += 1.37
        clocks.ahead += 1.37 * 0.0005
        clocks.check()
        clocks.reply()
    assert clocks.check() < 0.5


def test_eight_probes_tell_the_time_closely() -> None:
    clocks = Clocks(random.random())
    clocks.reply()
    probes = 0
    while (wait := clocks.clock.probe_in()) is not None:
        assert 0 <= wait <= 1
        clocks.time += wait
        clocks.reply()
        probes += 1
    assert probes <= 8
    assert clocks.check() < 0.03


def test_a_server_whose_clock_was_set_is_followed() -> None:
    clocks = Clocks(0.0)
    clocks.reply()
    clocks.ahead -= HOUR
    clocks.reply()
    assert clocks.check() < 1.01


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_a_reply_without_a_date_teaches_nothing(date: str | None) -> None:
    clock = ReplyClock(lambda: 5.0)
    clock.learn_date(date, 4.0, 5.0)
    assert not clock.is_known
    assert clock.probe_in() is None


# -- on a server -------------------------------------------------------------------------------------------------------


server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)


@pytest.fixture(params=[0.45, -0.45], ids=["the taker is fast", "the owner is fast"])
def pair(
    request: pytest.FixtureRequest, server: EtcdServer, tmp_path: Path
) -> Iterator[tuple[SteppedClient, SteppedClient]]:
    """Two clients whose clocks differ by less than the second that a reply leaves open."""
    name = f"pair-{uuid.uuid4()}"
    with (
        SteppedClient(server.uri, name, tmp_path, max(0.0, -request.param)) as owner,
        SteppedClient(server.uri, name, tmp_path, max(0.0, request.param)) as taker,
    ):
        yield owner, taker


def test_no_claim_is_taken_early_by_a_client_that_knows_the_time_to_a_second(
    pair: tuple[SteppedClient, SteppedClient],
) -> None:
    owner, taker = pair
    for phase in (0.0, 0.6):
        owner.ask("forget")
        taker.ask("forget")
        job = owner.ask("post", 0.0).value
        eventually(lambda phase=phase: (time.time() - phase) % 1.0 < 0.05)  # type: ignore[misc]
        claimed = owner.ask("claim", 0.3)
        taken = taker.ask("take", 60.0)
        assert claimed.value == taken.value == job
        # Late by what both don't know, and that is two seconds at most.
        assert 0.3 <= taken.ended - claimed.began < 0.3 + 2.0 + 5.0
        taker.ask("consume", job)


def test_a_client_that_waits_gets_to_know_the_time(harness: EtcdHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobboard.backends.etcd.clock._clocks", {})
    board = harness.board()
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    clock = backend.http.clock
    board.subscribe(lambda event: None)
    eventually(lambda: clock.latest() - clock.now() < 0.1, within=30)


def test_a_server_that_tells_no_time_is_refused(harness: EtcdHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    board = harness.board()
    board.close()
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    monkeypatch.setattr(ReplyClock, "is_known", False)
    with pytest.raises(BoardUnavailable, match="header Date"):
        board.connect()
    monkeypatch.undo()
    board.connect()


# -- places ------------------------------------------------------------------------------------------------------------


def test_places_sort_as_claims_go() -> None:
    at_once = [(0.0, number) for number in (0, 9, 10, 99, 1_000, 10**15)]
    later = [(1.5e9, 10**15), (1.5e9, 10**15 + 1), (1.6e9, 7), (0.0, 2**62)]
    expected = [(priority, *place) for priority in range(5, 0, -1) for place in (*at_once, *later)]
    assert sorted(random.sample(expected, len(expected)), key=lambda place: order_of(*place)) == expected


def test_moments_sort_by_time() -> None:
    moments = [0.0, 0.5, 9.0, 10.0, 1.7e9, 1.7e9 + 1e-5, 1e11]
    assert sorted(random.sample(moments, len(moments)), key=moment_of) == moments


@pytest.mark.parametrize("compares", [0, 1, 60, 101])
def test_no_transaction_lists_more_than_a_server_takes(compares: int) -> None:
    packed = many([delete(b"%d" % n) for n in range(600)], compares)
    assert len(packed) <= MAX_OPS
    inner = [step["request_txn"]["success"] for step in packed]
    assert sum(map(len, inner)) == 600
    assert max(map(len, inner)) + max(compares, len(packed)) <= MAX_OPS
