"""The board for asyncio and Trio: whole, typed, gathered, and cancelled without a loss."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from helpers.embedded import MemoryHarness
from helpers.gates import Gate

from jobboard import EventKind, Every, JobBoard, JobState, Posting, Schedule, Schedules
from jobboard.aio import AsyncJob, AsyncJobBoard, AsyncLimits, AsyncSchedules, backend
from jobboard.aio.threads import MAX_THREADS
from jobboard.board.limits import Limits
from jobboard.errors import AlreadyPosted, BoardUnavailable, ClaimLost, InvalidPosting, ReplyLost, UnknownBackend
from jobboard.job import Job
from jobboard.testing import LossyBackend

pytestmark = pytest.mark.anyio

WRAPPERS = [(JobBoard, AsyncJobBoard), (Job, AsyncJob), (Schedules, AsyncSchedules), (Limits, AsyncLimits)]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def lossy() -> AsyncIterator[LossyBackend]:
    with MemoryHarness() as harness:
        yield LossyBackend(harness.backend(harness.fresh_name()))


@pytest.fixture
async def board(lossy: LossyBackend) -> AsyncIterator[AsyncJobBoard]:
    async with AsyncJobBoard(JobBoard(lossy.board, lossy)) as board:
        yield board


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.002)


def public(kind: type) -> set[str]:
    """Return the public names of a class, with its plain attributes."""
    names = {name for base in kind.__mro__ for name in [*vars(base), *getattr(base, "__annotations__", ())]}
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize(("sync", "wrapper"), WRAPPERS)
def test_the_wrapper_has_all_that_the_original_has(sync: type, wrapper: type) -> None:
    assert public(sync) - public(wrapper) == set()


@pytest.mark.parametrize(("sync", "wrapper"), WRAPPERS)
def test_the_wrapper_takes_the_arguments_of_the_original(sync: type, wrapper: type) -> None:
    for name in public(sync) - {"subscribe"}:
        original = inspect.getattr_static(sync, name, None)
        if inspect.isfunction(original):
            theirs = inspect.signature(getattr(wrapper, name)).parameters.values()
            ours = inspect.signature(original).parameters.values()
            assert [(one.name, one.kind, one.default) for one in theirs] == [
                (one.name, one.kind, one.default) for one in ours
            ], name


async def test_a_job_lives_its_life(board: AsyncJobBoard) -> None:
    job = await board.post("resize", details={"n": 1})
    assert (job.details, job.store, job.board, await job.state) == ({"n": 1}, "memory", board, JobState.UNCLAIMED)
    [mine] = await board.claim_next("alice")
    assert (mine == job, mine.token, await board.find_owner(job)) == (True, 1, "alice")
    await mine.checkpoint_state({"at": 7})
    assert await mine.extend_expiry(60)
    await board.consume(mine, "alice", 42)
    assert (await job.result, await job.checkpoint, job.record.state) == (42, {"at": 7}, JobState.COMPLETE)
    assert [line.kind for line in await job.history][-1] is EventKind.CONSUMED
    with pytest.raises(ClaimLost):
        await board.consume(mine, "alice")


async def test_claiming_a_handle_gives_it_the_token(board: AsyncJobBoard) -> None:
    job = await board.post("resize")
    assert await board.claim(job, "alice") == job.token == 1
    assert await job.extend_expiry(60)


async def test_a_bad_argument_raises_as_it_does_on_the_sync_board(board: AsyncJobBoard) -> None:
    with pytest.raises(InvalidPosting):
        await board.post("resize", details={"what": object()})
    with pytest.raises(TypeError):
        await board.post("resize", unheard_of=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        [job async for job in board.iterjobs(names="resize")]


async def test_limits_and_lanes(board: AsyncJobBoard) -> None:
    await board.limits.set(lane="tenant:*", running=1)
    first, second, third = await board.post_many([Posting("resize", lane="tenant:42") for _ in range(3)])
    assert [await job.state for job in (first, second, third)] == [
        JobState.UNCLAIMED, JobState.BLOCKED, JobState.BLOCKED,
    ]  # fmt: skip
    assert [limit.lane async for limit in board.limits] == ["tenant:*"]
    assert ((await board.limits.lane("tenant:42")).blocked, first.lane) == (2, "tenant:42")
    await board.pause(lane="tenant:42")
    assert await first.state is JobState.BLOCKED
    await board.resume(lane="tenant:42")
    assert await board.limits.remove(lane="tenant:*")
    assert [await job.state for job in (first, second, third)] == [JobState.UNCLAIMED] * 3


async def test_iterations_waits_and_schedules(board: AsyncJobBoard) -> None:
    posted = await board.post_many([Posting("resize", details={"n": n}) for n in range(250)])
    assert [job async for job in board.iterjobs()] == posted
    assert [job async for job in board.wait(30)] == posted
    assert [job async for job in board.wait(0.0, names=["scale"])] == []
    await board.schedules.add(Schedule("often", Every(minutes=5), "resize"))
    assert [schedule.id async for schedule in board.schedules] == ["often"]
    assert isinstance(await board.schedules.fire_now("often"), AsyncJob)


async def test_a_wait_wakes_on_a_post(board: AsyncJobBoard, lossy: LossyBackend) -> None:
    found: list[AsyncJob] = []

    async def wait() -> None:
        found.extend([job async for job in board.wait(30)])

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await until(lossy.blocked.is_set)
        job = await board.post("resize")
    assert found == [job]


async def test_a_cancelled_wait_frees_its_thread(board: AsyncJobBoard, lossy: LossyBackend) -> None:
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            async for _ in board.wait():
                pass

        group.start_soon(wait)
        await until(lossy.blocked.is_set)
        group.cancel_scope.cancel()
    executor = board._threads._executors["waits"]
    assert await anyio.to_thread.run_sync(lambda: executor.submit(lambda: True).result(30))
    executor.shutdown(wait=True)  # returns only when no thread of it waits any more


async def test_waiting_for_the_end_of_a_job_takes_no_thread(board: AsyncJobBoard) -> None:
    jobs = await board.post_many([Posting("resize") for _ in range(20)])
    await board.claim_next("alice", limit=20)
    ends: list[bool] = []

    async def wait(job: AsyncJob) -> None:
        ends.append(await job.wait(30))

    async with anyio.create_task_group() as group:
        for job in jobs:
            group.start_soon(wait, job)
        await anyio.wait_all_tasks_blocked()
        assert "waits" not in board._threads._executors
        await board.consume_many(jobs, "alice")
    assert ends == [True] * 20
    assert {job.record.state for job in jobs} == {JobState.COMPLETE}
    late = await board.post("resize")
    assert not await late.wait(0.01)


async def test_a_stream_of_events_ends_with_the_board(board: AsyncJobBoard) -> None:
    seen: list[EventKind] = []
    async with board.subscribe([EventKind.POSTED, EventKind.CANCELLED]) as events, anyio.create_task_group() as group:

        async def read() -> None:
            seen.extend([event.kind async for event in events])

        group.start_soon(read)
        await board.cancel(await board.post("resize"))
        await until(lambda: not events._events and events._arrived.statistics().tasks_waiting == 1)
        await board.close()
    assert seen == [EventKind.POSTED, EventKind.CANCELLED]


async def test_calls_that_come_during_a_request_share_the_next_one(board: AsyncJobBoard, lossy: LossyBackend) -> None:
    gate = Gate(lossy, "post")
    async with anyio.create_task_group() as group:
        group.start_soon(board.post, "first")
        await until(gate.entered.is_set)
        for _ in range(50):
            group.start_soon(board.post, "later")
        await anyio.wait_all_tasks_blocked()
        gate.opened.set()
    assert gate.sizes == [1, 50]
    assert await board.job_count == 51


async def test_a_call_for_which_no_thread_begins_holds_up_no_later_one(
    board: AsyncJobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await board.post("resize")
    with anyio.fail_after(10):
        await board.post("rotate")
    assert [job.name async for job in board.iterjobs()] == ["rotate"]


async def test_a_taken_key_fails_only_its_own_post(board: AsyncJobBoard, lossy: LossyBackend) -> None:
    await board.post("resize", key="taken")
    gate, answers = Gate(lossy, "post"), dict[str, Any]()

    async def post(key: str) -> None:
        try:
            answers[key] = await board.post("resize", key=key)
        except AlreadyPosted as error:
            answers[key] = error

    async with anyio.create_task_group() as group:
        group.start_soon(board.post, "first")
        await until(gate.entered.is_set)
        for key in ("one", "taken", "two"):
            group.start_soon(post, key)
        await anyio.wait_all_tasks_blocked()
        gate.opened.set()
    assert isinstance(answers["taken"], AlreadyPosted)
    assert {answers["one"].key, answers["two"].key} == {"one", "two"}
    assert gate.sizes == [1, 3, 1, 1, 1]


async def test_a_post_that_was_not_sent_is_withdrawn(board: AsyncJobBoard, lossy: LossyBackend) -> None:
    gate = Gate(lossy, "post")
    async with anyio.create_task_group() as group:
        group.start_soon(board.post, "first")
        await until(gate.entered.is_set)
        async with anyio.create_task_group() as cancelled:
            cancelled.start_soon(board.post, "withdrawn")
            await anyio.wait_all_tasks_blocked()
            cancelled.cancel_scope.cancel()
        gate.opened.set()
    assert [job.name async for job in board.iterjobs()] == ["first"]


@pytest.mark.parametrize("primitive", ["claim", "claim_next"])
async def test_a_claim_of_a_cancelled_task_is_abandoned(
    board: AsyncJobBoard, lossy: LossyBackend, primitive: str
) -> None:
    job = await board.post("resize")
    entered, opened = threading.Event(), threading.Event()
    call = getattr(lossy.inner.jobs, primitive)

    def held_up(*args: Any) -> Any:
        answer = call(*args)
        entered.set()
        assert opened.wait(30)
        return answer

    setattr(lossy.inner.jobs, primitive, held_up)
    async with anyio.create_task_group() as group:
        if primitive == "claim":
            group.start_soon(board.claim, job, "alice")
        else:
            group.start_soon(board.claim_next, "alice")
        await until(entered.is_set)
        assert await job.state is JobState.CLAIMED
        group.cancel_scope.cancel()
    opened.set()
    with anyio.fail_after(30):
        while await job.state is not JobState.UNCLAIMED:
            await anyio.sleep(0.002)
    assert (job.record.attempts, (await job.history)[-1].reason) == (0, "whoever claimed it was cancelled")


async def test_a_closed_board_refuses(board: AsyncJobBoard) -> None:
    await board.close()
    with pytest.raises(BoardUnavailable):
        await board.post("resize")
    with pytest.raises(BoardUnavailable):
        await board.stats()
    await board.connect()
    assert await board.job_count == 0


async def test_who_waits_for_a_silent_store_is_told_so(
    board: AsyncJobBoard, lossy: LossyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobboard.aio.job.LAST_ANSWER_TIMEOUT", 0.05)
    job = await board.post("resize")
    gate = Gate(lossy, "read")
    with pytest.raises(BoardUnavailable, match="did not answer whether job"):
        await job.wait(0.01)
    gate.opened.set()


@pytest.mark.parametrize(("primitive", "first"), [("read", MAX_THREADS), ("post", 1)])
async def test_calls_behind_some_that_nobody_answers_fail_in_their_own_time(
    board: AsyncJobBoard, lossy: LossyBackend, monkeypatch: pytest.MonkeyPatch, primitive: str, first: int
) -> None:
    monkeypatch.setattr("jobboard.aio.threads._MIN_WAIT", 0.2)
    monkeypatch.setattr(board._sync._client, "patience", 0.0)
    job = await board.post("resize")
    gate, answers = Gate(lossy, primitive), list[str]()
    call = {"read": lambda: board.get(job.uuid), "post": lambda: board.post("resize")}[primitive]

    async def ask() -> None:
        try:
            await call()
            answers.append("answered")
        except ReplyLost:
            answers.append("of unknown effect")
        except BoardUnavailable:
            answers.append("not sent")

    async with anyio.create_task_group() as group:
        for _ in range(first):
            group.start_soon(ask)
        await until(lambda: len(gate.sizes) == first)
        for _ in range(500):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        await anyio.sleep(0.4)
        gate.opened.set()
    assert Counter(answers) == {"answered": first, "not sent": 500}


async def test_a_stream_that_has_ended_begins_no_more(board: AsyncJobBoard) -> None:
    stream = board.subscribe()
    async with stream:
        pass
    await board.close()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_backend_connects_and_closes() -> None:
    async with backend("work", "memory://aio") as board:
        assert board.connected
    assert not board.connected
    with pytest.raises(UnknownBackend):
        async with backend("work", "nonsense://"):
            pass


def test_without_anyio_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['anyio'] = None\ntry: import jobboard.aio\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install 'jobboard[aio]'" in done.stdout
