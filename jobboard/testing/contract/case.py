"""What the topics of the contract share: fixtures, and functions for their cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import pytest

from jobboard.board import JobBoard, handles_of
from jobboard.job import Job, row_of
from jobboard.states import JobState
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import LossyBackend
from jobboard.testing.harness import Harness

_Case = TypeVar("_Case", bound=Callable[..., None])

#: Seconds of a claim that a test lets expire, and of one that outlives every test.
SHORT, LONG = 0.1, 600.0

#: On a store whose clock is only known roughly, a claim may last this many seconds longer than asked for.
SLACK = 1.0


def needs(**capabilities: object) -> Callable[[_Case], _Case]:
    """Skip the case on stores whose capabilities are different; the reason begins with ``needs``."""

    def mark(case: _Case) -> _Case:
        case.needs = {**getattr(case, "needs", {}), **capabilities}  # type: ignore[attr-defined]
        return case

    return mark


def per_shard(case: _Case) -> _Case:
    """Let all jobs of the case go to one shard, on a board of shards: what it shows holds for each of them."""
    case.per_shard = True  # type: ignore[attr-defined]
    return case


class Case:
    """The base of every topic. The module that runs the cases has the fixture ``harness``."""

    @pytest.fixture(autouse=True)
    def _skip_what_the_store_cannot_do(self, request: pytest.FixtureRequest, harness: Harness) -> None:
        for name, value in getattr(request.function, "needs", {}).items():
            if getattr(harness.capabilities, name) != value:
                pytest.skip(f"needs {name}={value!r}")
        # All topics are bases of one class.
        topic = next(base for base in type(self).__mro__ if request.function.__name__ in vars(base))
        if getattr(request.function, "per_shard", getattr(topic, "per_shard", False)):
            harness.together = True

    #: Whether all cases of the topic are :func:`per_shard`.
    per_shard = False

    @pytest.fixture
    def client(self, harness: Harness) -> tuple[JobBoard, LossyBackend]:
        return harness.lossy_board()

    @pytest.fixture
    def board(self, client: tuple[JobBoard, LossyBackend]) -> JobBoard:
        """A client of a fresh board."""
        return client[0]

    @pytest.fixture
    def lossy(self, client: tuple[JobBoard, LossyBackend]) -> Iterator[LossyBackend]:
        """The backend of ``board``, which fails as it is told; the case must meet each fault that it asks for."""
        yield client[1]
        assert not client[1].armed, "the case did not meet every fault"

    @pytest.fixture
    def other(self, harness: Harness, board: JobBoard) -> JobBoard:
        """A second client of the same board, which knows nothing of the first one's claims."""
        return harness.board(board.name)

    def __init_subclass__(cls) -> None:
        """Refuse two cases of one name: only one of them would run."""
        super().__init_subclass__()
        seen: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            for name, case in vars(base).items():
                if name.startswith("test_") and seen.setdefault(name, case) is not case:
                    raise TypeError(f"{cls.__name__} has two cases {name}")


class Snapshot(NamedTuple):
    """All of a job that a refused call must leave as it was."""

    state: JobState
    attempts: int
    owner: str | None
    token: int
    expires_at: object
    run_at: object
    last_modified: object
    last_error: str | None
    reason: str | None
    checkpoint: object
    result: object
    cancel_asked: bool
    history: object
    details: object


def snapshot(board: JobBoard, job: Job) -> Snapshot:
    """Read a job anew."""
    now = board.get(job.uuid)
    record = now.record
    return Snapshot(
        record.state, record.attempts, record.owner, record.token, record.expires_at, record.run_at,
        record.last_modified, record.last_error, record.reason, record.checkpoint, record.result, record.cancel_asked,
        tuple(row_of(now).history), now.details,
    )  # fmt: skip


def state_of(board: JobBoard, job: Job) -> JobState:
    """Read the state of a job anew, without its history; one request."""
    return handles_of(board).reader.row(job.uuid).state


def claim_one(board: JobBoard, who: str = "alice", **options: Any) -> Job:
    """Claim the next job; there must be one. The claim outlives the test unless ``expiry`` says otherwise."""
    options.setdefault("expiry", LONG)
    [job] = board.claim_next(who, **options)
    return job


def drain(board: JobBoard, who: str = "alice", *, limit: int = 100) -> Iterator[Job]:
    """Claim and consume all jobs; return them in the order of their claims."""
    while jobs := board.claim_next(who, limit=limit, expiry=LONG):
        assert len(jobs) <= limit
        for job, error in zip(jobs, board.consume_many(jobs, who), strict=True):
            assert error is None
            yield job


def until_expired(board: JobBoard, *jobs: Job, every: float = 0.01) -> None:
    """Wait until the claims of these jobs are over."""
    for job in jobs:
        eventually(lambda job=job: state_of(board, job) is not JobState.CLAIMED, every=every)  # type: ignore[misc]


def let_a_claim_expire(board: JobBoard, seconds: float = SHORT) -> None:
    """Wait until a claim that is made now for ``seconds`` has expired by the store's own clock."""
    witness = board.post("a witness of time", uuid=None)
    board.claim(witness, "a witness", seconds)
    until_expired(board, witness, every=max(0.01, seconds / 20))
    board.cancel(witness)


def uuids_of(jobs: Iterable[Job]) -> list[str]:
    return [job.uuid for job in jobs]


def numbers_of(jobs: Iterable[Job]) -> list[Any]:
    """Return what the jobs were posted with as ``details={"n": ...}``."""
    return [(job.details or {}).get("n") for job in jobs]


def first_waited_for(board: JobBoard, timeout: float | None, **options: Any) -> Job | None:
    """Return the first job that a wait finds."""
    return next(iter(board.wait(timeout, **options)), None)


NEVER = math.inf
