"""Durable handlers in real conductor processes that are killed at any moment, on the stores that most teams have."""

from __future__ import annotations

import random
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harnesses.diaries import whole_lines
from harnesses.durable_work import PHOTOS, STEPS
from servers.durable_stores import Store, running

from jobboard import JobBoard, JobState, Posting, fetch
from jobboard.testing import all_posted, eventually

pytestmark = pytest.mark.in_turn(1)

Start = Callable[..., subprocess.Popen[str]]
KILLS, JOBS = 3, 18


@pytest.fixture(scope="module", params=["redis", "postgresql", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with running(request.param, tmp_path_factory.mktemp(request.param)) as store:
        yield store


@pytest.fixture
def board(store: Store, request: pytest.FixtureRequest) -> Iterator[JobBoard]:
    with fetch(request.node.name.partition("[")[0][-40:], store.uri) as board:
        if not board.capabilities.edges:
            pytest.skip("this store has no steps")
        yield board


def start_conductor(start: Start, store: Store, board: JobBoard, *options: str) -> subprocess.Popen[str]:
    return start(
        "--board", store.uri, "--name", board.name, "conductor", "harnesses.durable_work:handlers",
        *("--expiry", "1", "--concurrency", "4", *options),
    )  # fmt: skip


def effects_of(diary: Path) -> dict[tuple[str, str], list[str]]:
    """Return what the calls of each step of each job have returned, in their order."""
    effects: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in whole_lines(diary):
        job, rest = line.split(" ", 1)
        name, nonce = rest.rsplit(" ", 1)
        effects[job, name].append(nonce)
    return effects


@pytest.mark.parametrize(
    ("name", "executor"), [("pipeline", "thread"), ("pipeline", "process"), ("pipeline later", "asyncio")]
)
def test_a_recorded_step_never_runs_again_whoever_is_killed(
    start: Start, store: Store, board: JobBoard, tmp_path: Path, name: str, executor: str
) -> None:
    diary, chance = tmp_path / "diary", random.Random(35)
    jobs = board.post_many([Posting(name, {"diary": str(diary)}) for _ in range(JOBS)])

    def conductor() -> subprocess.Popen[str]:
        return start_conductor(start, store, board, "--executor", executor)

    crew = [conductor() for _ in range(2)]
    lines = 0
    for kill in range(KILLS):
        lines += chance.randint(8, 20)
        eventually(lambda wanted=lines: len(whole_lines(diary)) >= wanted, 60)
        crew.pop(0).kill()
        crew.append(conductor())
        for job in jobs[kill * JOBS // KILLS : (kill + 1) * JOBS // KILLS]:
            board.signal(job, "go", kill)
    for at, job in enumerate(jobs):
        result = job.get_result(90)
        assert result["value"] == at * KILLS // JOBS
    effects = effects_of(diary)
    for job in jobs:
        names = [*(f"step {number}" for number in range(STEPS)), "last"]
        # A call that was killed before its result was stored is made again: the last one is the recorded one.
        assert job.result["results"] == [effects[job.uuid, name][-1] for name in names]
        assert {step.name: step.result for step in job.steps()}.items() >= dict(
            zip(names, job.result["results"], strict=True)
        ).items()
    again = sum(len(nonces) - 1 for nonces in effects.values())
    assert again <= KILLS * 4
    uuids = {job.uuid for job in jobs}
    followed = [job.details["of"] for job in all_posted(board, "next") if job.details]
    assert sorted(uuids & set(followed)) == sorted(of for of in followed if of in uuids) == sorted(uuids)
    assert {job.record.state for job in jobs} == {JobState.COMPLETE}


def test_jobs_that_are_waited_for_are_posted_once_whoever_is_killed(
    start: Start, store: Store, board: JobBoard
) -> None:
    chance = random.Random(36)
    albums = board.post_many([Posting("album") for _ in range(JOBS)])

    def conductor() -> subprocess.Popen[str]:
        return start_conductor(start, store, board, "--log-level", "error")

    crew = [conductor() for _ in range(2)]
    photos = 0
    for _ in range(KILLS):
        photos += chance.randint(5, 30)
        eventually(lambda wanted=photos: len(list(all_posted(board, "photo"))) >= wanted, 60, every=0.05)
        crew.pop(0).kill()
        crew.append(conductor())
    numbers = list(range(PHOTOS))
    assert [album.get_result(90) for album in albums] == [[*numbers, sum(numbers)]] * JOBS
    assert len(list(all_posted(board, "photo"))) == JOBS * (PHOTOS + 1)
    assert all(len(list(album.parents())) == PHOTOS + 1 for album in albums)
    assert (board.job_count, board.audit()) == (0, [])
