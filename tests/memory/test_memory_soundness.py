"""The memory backend under random steps, many threads and a fork: it stays sound."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.memory_seam import (
    DEADLINE,
    claim_next,
    client_of,
    consume,
    fill,
    fresh_name,
    hold_of,
    post,
    posting,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from jobboard.backends.memory import MemoryBackend, store
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimRequest,
    Extension,
    IfExists,
    JobRow,
    Trashing,
    Verdict,
)
from jobboard.events import EventKind, JobEvent
from jobboard.states import JobState

NAMES = ("crop", "resize", "rotate")


@pytest.fixture
def backend() -> Iterator[MemoryBackend]:
    backend = client_of(fresh_name())
    yield backend
    backend.close()


def ready_order(backend: MemoryBackend, names: frozenset[str] | None = None) -> list[str]:
    return [entry.uuid for entry in backend.jobs.page([JobState.UNCLAIMED], names, None, 10_000).rows]


# -- the ready order -----------------------------------------------------------------------------------------------


class Model:
    """What is ready, as a sorted list would have it, and what is held."""

    def __init__(self, backend: MemoryBackend) -> None:
        self.backend = backend
        self.ready: dict[str, JobRow] = {}
        self.held: list[JobRow] = []

    def best(self, name: str | None = None) -> list[str]:
        entries = [entry for entry in self.ready.values() if name in (None, entry.name)]
        return [
            entry.uuid for entry in sorted(entries, key=lambda entry: (-entry.priority, entry.place, entry.sequence))
        ]

    def any_ready(self, number: int) -> JobRow:
        return self.ready.pop(sorted(self.ready)[number % len(self.ready)])

    def any_held(self, number: int) -> JobRow:
        return self.held.pop(number % len(self.held))

    def post(self, number: int) -> None:
        entry = post(self.backend, NAMES[number % 3], priority=1 + number % 5)
        self.ready[entry.uuid] = entry

    def replace(self, number: int) -> None:
        """Post under a key; that of a claimed job stays as it is."""
        new = posting(NAMES[number % 3], priority=1 + number % 5, key="k", if_exists=IfExists.REPLACE)
        entry = self.backend.jobs.post([new])[0].row
        if entry.state is JobState.UNCLAIMED:
            self.ready[entry.uuid] = entry

    def claim_best(self, number: int) -> None:
        name = (None, *NAMES)[number % 4]
        expected = self.best(name)[: number % 5]
        claimed = claim_next(self.backend, None if name is None else {name}, limit=number % 5)
        assert [entry.uuid for entry in claimed] == expected
        self.held += [self.ready.pop(entry.uuid) and entry for entry in claimed]

    def claim_any(self, number: int) -> None:
        entry = self.backend.jobs.claim(self.any_ready(number).uuid, ClaimRequest("alice", str(number), 30.0))
        assert entry is not None
        self.held.append(entry)

    def cancel(self, number: int) -> None:
        assert self.backend.jobs.cancel([self.any_ready(number).uuid]) == [CancelOutcome.CANCELLED]

    def put_back(self, number: int) -> None:
        entry = self.any_held(number)
        assert self.backend.jobs.abandon([Abandonment(hold_of(entry))]) == [Verdict.DONE]
        self.ready[entry.uuid] = entry

    def trash(self, number: int) -> None:
        held = self.any_held(number)
        assert self.backend.jobs.trash([Trashing(held.uuid, hold_of(held))]) == [Verdict.DONE]


FREE, OF_READY, OF_HELD = [Model.post, Model.replace, Model.claim_best], [Model.claim_any, Model.cancel], [
    Model.put_back, Model.trash,
]  # fmt: skip


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from([*FREE, *OF_READY, *OF_HELD]), st.integers(0, 99)), max_size=60))
def test_the_ready_order_is_that_of_a_sorted_list(steps: list[tuple[Callable[[Model, int], None], int]]) -> None:
    backend = client_of(fresh_name())
    model = Model(backend)
    for step, number in steps:
        if (step in OF_READY and not model.ready) or (step in OF_HELD and not model.held):
            continue
        step(model, number)
        assert ready_order(backend) == model.best()
    assert all(ready_order(backend, frozenset({name})) == model.best(name) for name in NAMES)
    assert backend.maintenance.audit(False) == []


@pytest.mark.parametrize("names", [None, frozenset({"resize", "crop"})])
@pytest.mark.parametrize("size", [1, 7, 500])
def test_pages_of_any_size_show_all_once_in_order(
    backend: MemoryBackend, names: frozenset[str] | None, size: int
) -> None:
    dice = random.Random(3)
    for _ in range(60):
        fill(backend, 2, dice.choice(NAMES), priority=dice.randrange(1, 6), delay=dice.choice([None, 600.0]))
    claim_next(backend, limit=20)
    consume(backend, claim_next(backend, limit=20))
    seen: list[JobRow] = []
    cursor = None
    while True:
        page = backend.jobs.page(set(JobState), names, cursor, size)
        assert len(page.rows) <= size
        seen += page.rows
        cursor = page.cursor
        if cursor is None:
            break
    assert len({entry.uuid for entry in seen}) == len(seen)
    assert seen == sorted(seen, key=lambda entry: (-entry.priority, entry.place, entry.sequence))
    rows = backend.store.rows.values()
    assert {entry.uuid for entry in seen} == {row.uuid for row in rows if names is None or row.name in names}


# -- many threads --------------------------------------------------------------------------------------------------


def in_threads(count: int, work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(count) as threads:
        for future in [threads.submit(work, number) for number in range(count)]:
            future.result(DEADLINE)


def test_no_job_is_granted_to_two_threads(backend: MemoryBackend) -> None:
    posted = {entry.uuid for entry in fill(backend, 2_000)}
    granted: list[str] = []

    def work(number: int) -> None:
        client = client_of(backend.board)
        while held := claim_next(client, limit=1 + number, who=f"worker {number}"):
            assert consume(client, held) == [Verdict.DONE] * len(held)
            granted.extend(entry.uuid for entry in held)

    in_threads(8, work)
    assert (len(granted), set(granted)) == (2_000, posted)
    tokens = {entry.token for entry in backend.jobs.page([JobState.COMPLETE], None, None, 5_000).rows}
    assert tokens == set(range(1, 2_001))


def test_of_threads_that_want_one_job_one_gets_it(backend: MemoryBackend) -> None:
    for _ in range(50):
        job, begin = post(backend), threading.Barrier(6)
        owners: list[str | None] = []

        def claim(
            number: int, uuid: str = job.uuid, begin: threading.Barrier = begin, to: list[str | None] = owners
        ) -> None:
            begin.wait(DEADLINE)
            entry = backend.jobs.claim(uuid, ClaimRequest(f"worker {number}", str(number), 30.0))
            if entry is not None and entry.claim_id == str(number):
                to.append(entry.owner)

        in_threads(6, claim)
        (now,) = backend.jobs.read([job.uuid])
        assert now is not None
        assert (owners, now.attempts) == ([now.owner], 1)


def test_every_job_meets_one_end_and_the_store_stays_sound_while_all_do_everything(backend: MemoryBackend) -> None:
    ended: list[str] = []

    def work(number: int) -> None:
        dice, client = random.Random(number), client_of(backend.board)
        for turn in range(60):
            fill(client, 4, dice.choice(NAMES), priority=dice.randrange(1, 6), delay=dice.choice([None, 0.001]))
            for held in claim_next(client, limit=4, expiry=dice.choice([0.002, 30.0])):
                client.jobs.extend([Extension(hold_of(held), dice.choice([0.002, 30.0]))])
                if _end_somehow(client, held, dice):
                    ended.append(held.uuid)
            client.waiter(None).ready_in()
            if turn % 10 == 0:
                assert client.maintenance.audit(False) == []

    in_threads(6, work)
    shown = backend.jobs.page({JobState.COMPLETE, JobState.TRASHED}, None, None, 9_999).rows
    assert ended
    assert sorted(ended) == sorted(entry.uuid for entry in shown)
    assert backend.maintenance.audit(False) == []


def _end_somehow(backend: MemoryBackend, held: JobRow, dice: random.Random) -> bool:
    """Try one end of a claim, which may be over; return whether the job was ended for good by it."""
    how = dice.choice(["consume", "trash", "abandon", "release", "cancel"])
    if how == "consume":
        return consume(backend, [held]) == [Verdict.DONE]
    if how == "trash":
        return backend.jobs.trash([Trashing(held.uuid, hold_of(held))]) == [Verdict.DONE]
    if how == "abandon":
        backend.jobs.abandon([Abandonment(hold_of(held), dice.choice([0.0, 0.001]))])
    elif how == "release":
        backend.jobs.release(held.uuid, held.token, "a race")
    else:
        backend.jobs.cancel([held.uuid])
    return False


def test_events_of_a_job_come_in_order_from_many_threads(backend: MemoryBackend) -> None:
    received: list[JobEvent] = []
    backend.listen(received.append, frozenset(EventKind))

    def work(number: int) -> None:
        for _ in range(100):
            post(backend)
            consume(backend, claim_next(backend))

    in_threads(6, work)
    by_job: dict[str | None, list[EventKind]] = {}
    for event in received:
        by_job.setdefault(event.uuid, []).append(event.kind)
    life = [EventKind.POSTED, EventKind.CLAIMED, EventKind.CONSUMED]
    assert len(by_job) == 600
    assert all(kinds == life for kinds in by_job.values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_amid_changes_gets_a_whole_copy_of_its_own(
    backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Or all that was consumed is remembered, and each child has more to look at than the one before.
    monkeypatch.setattr(store, "RETRY_WINDOW", 0.0)
    is_over = threading.Event()

    def keep_changing(number: int) -> None:
        while not is_over.is_set():
            fill(backend, 20)
            consume(backend, claim_next(backend, limit=20), retention=0.0)
            backend.maintenance.tidy(100)

    with ThreadPoolExecutor(2) as threads:
        changing = [threads.submit(keep_changing, number) for number in range(2)]
        try:
            codes = [_fork_and_look(backend) for _ in range(20)]
        finally:
            is_over.set()
        for future in changing:
            future.result(DEADLINE)
    assert codes == [0] * 20
    assert backend.jobs.find("resize", "of a child") is None


def _fork_and_look(backend: MemoryBackend) -> int:
    """Return 0 if a forked child finds its copy usable and sound, and something else if it doesn't, or hangs."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    code = 1
    try:
        signal.alarm(int(DEADLINE))
        post(backend, key="of a child")
        code = 0 if backend.maintenance.audit(False) == [] else 2
    finally:
        os._exit(code)
