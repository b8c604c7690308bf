"""Steps of a client's wall clock: they change neither what is due nor whose a claim is, on any store with a server."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from harnesses.stepped_client import SteppedClient
from servers.durable_stores import STORES, Store, running

from jobboard import At, JobBoard, JobState, Schedule, fetch
from jobboard.testing import eventually

pytestmark = pytest.mark.in_turn(1)

DAY = 86_400.0

#: By how much the store's clock, or what clients know of it, may round what is due.
ROUNDING = 0.01


@pytest.fixture(scope="module", params=[name for name in STORES if name != "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with running(request.param, tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture
def board(store: Store) -> Iterator[JobBoard]:
    """The board of a client whose clock is right."""
    with fetch(f"stepped-{uuid.uuid4()}", store.uri) as board:
        yield board


@pytest.fixture
def stepped(store: Store, board: JobBoard, tmp_path: Path) -> Iterator[SteppedClient]:
    with SteppedClient(store.uri, board.name, tmp_path) as client:
        yield client


def test_a_step_changes_no_delay(board: JobBoard, stepped: SteppedClient) -> None:
    for ahead in (DAY, -DAY):
        stepped.step(ahead)
        posted = stepped.ask("post", 0.5)
        # What the one posts is due for the other when it must be, and not before.
        [job] = eventually(lambda: board.claim_next("right", expiry=60.0))
        assert (job.uuid, time.monotonic() - posted.began > 0.5 - ROUNDING) == (posted.value, True)
        board.consume(job, "right")
        began = time.monotonic()
        job = board.post("resize", delay=0.5)
        taken = stepped.ask("take", 60.0)
        assert (taken.value, taken.ended - began > 0.5 - ROUNDING) == (job.uuid, True)
        stepped.ask("consume", job.uuid)
        assert board.get(board.post("resize", delay=600.0).uuid).state is JobState.DELAYED
        assert stepped.ask("claim", 60.0).value is None


def test_a_step_ends_no_claim_and_keeps_none(board: JobBoard, stepped: SteppedClient) -> None:
    job = board.post("resize")
    for ahead in (DAY, -DAY):
        began = time.monotonic()
        board.claim(job, "right", 0.5)
        stepped.step(ahead)
        taken = stepped.ask("take", 60.0)
        assert (taken.value, taken.ended - began > 0.5 - ROUNDING) == (job.uuid, True)
        # Its own claim it can extend after another step, by what it was asked to.
        stepped.step(-ahead)
        extended = stepped.ask("extend", job.uuid, 1.0)
        eventually(lambda: board.find_owner(job) is None)
        assert time.monotonic() - extended.began > 1.0 - ROUNDING


def test_a_step_fires_no_schedule_early_or_late(board: JobBoard, stepped: SteppedClient) -> None:
    board.schedules.add(Schedule("later", At(datetime.now(UTC) + timedelta(hours=12)), "write"))
    stepped.step(DAY)
    assert stepped.ask("fire").value == 0
    board.schedules.add(Schedule("soon", At(datetime.now(UTC) + timedelta(seconds=0.5)), "write"))
    stepped.step(-DAY)
    assert stepped.ask("fired").value == 1
    assert board.schedules.get("later").next_fire_time is not None
