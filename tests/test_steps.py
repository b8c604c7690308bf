"""Steps, sleeps and waits of handlers: what is done once, what ends a run, and what goes on after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobboard import (
    AsyncRunningJob,
    Backoff,
    Handlers,
    InvalidPosting,
    Job,
    JobBoard,
    JobState,
    RunningJob,
    StepsChanged,
)
from jobboard.board import client_of
from jobboard.codec import encode
from jobboard.testing import clock_of, memory_board, run_due

Steps = Callable[[RunningJob, list[str]], Any]


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with memory_board(now=datetime(2030, 1, 1, tzinfo=UTC)) as board:
        yield board


def handlers_of(*functions: Callable[..., Any]) -> Handlers:
    handlers = Handlers(backoff=Backoff(first=0, jitter=0))
    for function in functions:
        handlers.add("order", function)
    return handlers


def send(board: JobBoard, job: Job, name: str, value: Any = None) -> None:
    client_of(board).backend.steps.signal(job.uuid, name, encode("value", value).data)


def names_of(board: JobBoard, job: Job) -> list[str]:
    return [step.name for step in client_of(board).load_steps(job.uuid, 0, 100)]


class Attempts:
    """A handler of three steps, whose run fails after as many of them as ``fail_after`` says."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.calls: list[str] = []
        self.fail_after: int | None = None

    def __call__(self, job: RunningJob) -> list[Any]:
        results = []
        for number, name in enumerate(self.names):
            if number == self.fail_after:
                raise LookupError("not yet")
            results.append(job.step(name, self.do, name))
        return results

    def do(self, name: str) -> tuple[str, int]:
        self.calls.append(name)
        return name, len(self.calls)


def test_a_step_runs_once_and_later_runs_get_what_it_returned(board: JobBoard) -> None:
    handler = Attempts("reserve", "charge", "ship")
    job, handlers = board.post("order"), handlers_of(handler)
    for fail_after in (1, 2):
        handler.fail_after = fail_after
        with pytest.raises(LookupError):
            run_due(board, handlers)
    handler.fail_after = None
    run_due(board, handlers)
    assert handler.calls == ["reserve", "charge", "ship"]
    assert job.result == [["reserve", 1], ["charge", 2], ["ship", 3]]
    assert names_of(board, job) == ["reserve", "charge", "ship"]


def test_the_first_run_gets_what_later_ones_will_read(board: JobBoard) -> None:
    seen: list[Any] = []

    def order(job: RunningJob) -> None:
        seen.append(job.step("at", lambda: (1, datetime(2030, 1, 2, 3, tzinfo=UTC))))
        if len(seen) == 1:
            raise LookupError

    board.post("order")
    for _ in range(2):
        try:
            run_due(board, handlers_of(order))
        except LookupError:
            continue
    assert seen == [[1, datetime(2030, 1, 2, 3, tzinfo=UTC)]] * 2


def test_steps_may_have_one_name_and_their_function_gets_its_arguments(board: JobBoard) -> None:
    def add(*numbers: int, name: str) -> str:
        return f"{name} {sum(numbers)}"

    def order(job: RunningJob) -> list[str]:
        return [job.step("add", add, number, 1, name="sum") for number in range(3)]

    job = board.post("order")
    run_due(board, handlers_of(order))
    assert job.result == ["sum 1", "sum 2", "sum 3"]


def test_a_step_that_fails_is_an_attempt_and_is_not_recorded(board: JobBoard) -> None:
    def order(job: RunningJob) -> Any:
        job.step("first", lambda: 1)
        return job.step("divide", lambda: 1 // (job.attempts - 1))

    job, handlers = board.post("order"), handlers_of(order)
    with pytest.raises(ZeroDivisionError):
        run_due(board, handlers)
    assert (names_of(board, job), job.attempts) == (["first"], 1)
    run_due(board, handlers)
    assert job.result == 1


@pytest.mark.parametrize(
    ("recorded", "asked", "text"),
    [
        (("reserve", "charge"), ("reserve", "bill", "ship"), "step 2 of this job is recorded as 'charge'"),
        (("reserve", "charge"), ("charge", "reserve", "ship"), "step 1 of this job is recorded as 'reserve'"),
        (("reserve", "charge", "ship"), ("reserve", "charge"), "step 3 of this job is recorded as 'ship'"),
        (("reserve",), (":sleep", "reserve"), "step 1 of this job is recorded as 'reserve'"),
    ],
)
def test_changed_steps_are_refused_by_name_before_anything_runs_and_go_on_once_mended(
    board: JobBoard, recorded: tuple[str, ...], asked: tuple[str, ...], text: str
) -> None:
    old = Attempts(*recorded, "last")
    old.fail_after = len(recorded)
    job = board.post("order")
    with pytest.raises(LookupError):
        run_due(board, handlers_of(old))
    changed, calls = Attempts(*asked), list[str]()

    def swallows(job: RunningJob) -> None:
        for name in asked:
            try:
                job.sleep(1) if name == ":sleep" else job.step(name, calls.append, name)
            except Exception:
                continue

    for handler in (changed, swallows):
        if handler is changed and ":sleep" in asked:
            continue
        with pytest.raises(StepsChanged, match=text):
            run_due(board, handlers_of(handler))
        assert (changed.calls, calls, job.state) == ([], [], JobState.TRASHED)
        assert text in str(job.record.reason)
        assert "restore the job" in str(job.record.reason)
        board.restore(job)
    old.fail_after = None
    run_due(board, handlers_of(old))
    assert old.calls == [*recorded, "last"]


@pytest.mark.parametrize(("result", "path"), [({"found": object()}, ".found"), (b"x" * 600_000, "")])
def test_a_result_that_cannot_be_stored_names_its_step(board: JobBoard, result: object, path: str) -> None:
    job = board.post("order")
    with pytest.raises(InvalidPosting, match="the result of the step 'look up'") as caught:
        run_due(board, handlers_of(lambda job: job.step("look up", lambda: result)))
    assert caught.value.path == f"the result of the step 'look up'{path}"
    assert names_of(board, job) == []


@pytest.mark.parametrize("name", ["", ":sleep", "a\nb", "x" * 256])
def test_what_cannot_name_a_step_is_refused(board: JobBoard, name: str) -> None:
    def order(job: RunningJob) -> None:
        job.step(name, print)

    board.post("order")
    with pytest.raises(ValueError, match="a step's name"):
        run_due(board, handlers_of(order))


@pytest.mark.parametrize(
    "inner", [lambda job: job.step("b", int), lambda job: job.sleep(1), lambda job: job.wait_for("s")]
)
def test_a_step_in_a_step_is_refused(board: JobBoard, inner: Callable[[RunningJob], Any]) -> None:
    def order(job: RunningJob) -> None:
        job.step("a", inner, job)

    job = board.post("order")
    with pytest.raises(RuntimeError, match="can't begin in another step"):
        run_due(board, handlers_of(order))
    assert names_of(board, job) == []


def test_an_async_function_is_refused_in_a_plain_handler(board: JobBoard) -> None:
    async def fetch() -> None: ...

    def order(job: RunningJob) -> None:
        job.step("fetch", fetch)

    board.post("order")
    with pytest.raises(TypeError, match="only an async handler"):
        run_due(board, handlers_of(order))


# -- sleeps ------------------------------------------------------------------------------------------------------------


def test_a_sleep_ends_the_run_uncounted_and_later_runs_do_not_sleep_again(board: JobBoard) -> None:
    calls: list[tuple[str, int]] = []

    def order(job: RunningJob) -> str:
        job.step("before", lambda: calls.append(("before", job.attempts)))
        job.sleep(timedelta(hours=1))
        job.step("after", lambda: calls.append(("after", job.attempts)))
        job.sleep(60)
        return "done"

    job = board.post("order")
    began = clock_of(board).now()
    ran = run_due(board, handlers_of(order))
    assert calls == [("before", 1), ("after", 1)]
    assert (len(ran), job.result, job.attempts) == (3, "done", 1)
    assert timedelta(seconds=3660) <= clock_of(board).now() - began < timedelta(seconds=3670)
    assert names_of(board, job) == ["before", ":sleep", "after", ":sleep"]


def test_one_that_is_woken_early_sleeps_for_the_rest(board: JobBoard) -> None:
    def order(job: RunningJob) -> None:
        job.sleep(3600)

    job, handlers = board.post("order"), handlers_of(order)
    with pytest.raises(AssertionError, match="1 jobs ran"):
        board.post("order", priority="LOW")
        run_due(board, handlers, limit=1)
    assert (job.state, job.history[-1].reason) == (JobState.DELAYED, "it sleeps for 3600 s")
    began = clock_of(board).move(3000)
    board.run_now(job)
    run_due(board, handlers, limit=10)
    assert job.state is JobState.COMPLETE
    assert job.last_modified - began >= timedelta(seconds=590)


@pytest.mark.parametrize("swallow", [True, False])
def test_what_a_handler_makes_of_the_end_of_its_run_does_not_count(board: JobBoard, swallow: bool) -> None:
    def order(job: RunningJob) -> str:
        try:
            job.sleep(10)
        except BaseException:
            if not swallow:
                raise KeyError("not the end") from None
            with pytest.raises(BaseException, match="it sleeps for 10 s"):
                job.step("while asleep", int)
        return "done"

    job = board.post("order")
    run_due(board, handlers_of(order))
    assert (job.result, names_of(board, job)) == ("done", [":sleep"])


@pytest.mark.parametrize("seconds", [-1, float("nan"), "1"])
def test_no_sleep_is_of_such_seconds(board: JobBoard, seconds: Any) -> None:
    def order(job: RunningJob) -> None:
        job.sleep(seconds)

    board.post("order")
    with pytest.raises((ValueError, TypeError), match="seconds"):
        run_due(board, handlers_of(order))


# -- signals -----------------------------------------------------------------------------------------------------------


def waits(timeout: float | None = None) -> Callable[[RunningJob], Any]:
    def order(job: RunningJob) -> Any:
        try:
            return job.wait_for("approved", timeout)
        except TimeoutError as error:
            return str(error)

    return order


def test_a_signal_before_the_wait_is_kept(board: JobBoard) -> None:
    job = board.post("order")
    send(board, job, "approved", {"by": "ann"})
    send(board, job, "approved", {"by": "bob"})
    assert len(run_due(board, handlers_of(waits()))) == 1
    assert job.result == {"by": "ann"}


def test_a_job_waits_for_its_signal_and_no_other_without_a_claim_or_an_attempt(board: JobBoard) -> None:
    job, handlers = board.post("order"), handlers_of(waits())
    assert len(run_due(board, handlers)) == 1
    assert (job.state, job.owner, job.attempts) == (JobState.BLOCKED, None, 0)
    clock_of(board).move(10 * 86_400)
    send(board, job, "refused")
    assert run_due(board, handlers) == []
    send(board, job, "approved", 7)
    assert len(run_due(board, handlers)) == 1
    assert (job.result, job.attempts) == (7, 1)


def test_a_wait_that_is_over_raises_and_stays_so(board: JobBoard) -> None:
    raised: list[str] = []

    def order(job: RunningJob) -> str:
        try:
            job.wait_for("approved", 60)
        except TimeoutError as error:
            raised.append(str(error))
        if len(raised) == 1:
            raise LookupError
        return "gave up"

    job, handlers = board.post("order"), handlers_of(order)
    run_due(board, handlers)
    assert (job.state, raised) == (JobState.BLOCKED, [])
    clock_of(board).move(60)
    with pytest.raises(LookupError):
        run_due(board, handlers)
    send(board, job, "approved")
    run_due(board, handlers)
    assert raised == ["the signal 'approved' was not sent within 60 s"] * 2
    assert job.result == "gave up"


def test_a_wait_for_no_time_asks_once(board: JobBoard) -> None:
    job = board.post("order")
    assert len(run_due(board, handlers_of(waits(0)))) == 1
    assert job.result == "the signal 'approved' was not sent within 0 s"


def test_three_waits_bring_each_its_own_signal(board: JobBoard) -> None:
    def order(job: RunningJob) -> list[Any]:
        return [job.wait_for(name) for name in ("a", "b", "c")]

    job, handlers = board.post("order"), handlers_of(order)
    for number, name in enumerate(("c", "a", "b")):
        run_due(board, handlers)
        send(board, job, name, number)
    run_due(board, handlers)
    assert job.result == [1, 2, 0]
    assert names_of(board, job) == [":wait a", ":signal a", ":wait b", ":signal b", ":wait c", ":signal c"]


def test_a_wait_for_another_signal_than_the_recorded_one_is_refused(board: JobBoard) -> None:
    job = board.post("order")
    run_due(board, handlers_of(waits()))
    send(board, job, "approved")

    def order(job: RunningJob) -> None:
        job.wait_for("agreed")

    with pytest.raises(StepsChanged, match="a wait for 'approved', but its handler asks for a wait for 'agreed'"):
        run_due(board, handlers_of(order))


def test_a_cancelled_sleeper_and_waiter_leave_the_board(board: JobBoard) -> None:
    job = board.post("order")
    run_due(board, handlers_of(waits()))
    assert board.cancel(job) is True
    assert list(board.iterjobs()) == []


# -- async handlers ----------------------------------------------------------------------------------------------------


def test_an_async_handler_awaits_its_steps_sleeps_and_waits(board: JobBoard) -> None:
    calls: list[str] = []

    async def fetch(what: str) -> str:
        calls.append(what)
        return f"{what} {len(calls)}"

    def plain(what: str) -> str:
        calls.append(what)
        return what

    async def order(job: AsyncRunningJob) -> list[Any]:
        first = await job.step("first", fetch, "a")
        await job.sleep(60)
        second = await job.step("second", plain, "b")
        third = await job.wait_for("approved")
        return [first, second, third]

    job, handlers = board.post("order"), handlers_of(order)
    assert len(run_due(board, handlers)) == 2
    assert job.state is JobState.BLOCKED
    send(board, job, "approved", "yes")
    run_due(board, handlers)
    assert (job.result, calls) == (["a 1", "b", "yes"], ["a", "b"])


def test_what_an_async_handler_does_not_await_is_done_in_order(board: JobBoard) -> None:
    async def order(job: AsyncRunningJob) -> None:
        for number in range(3):
            job.step(f"step {number}", lambda: None)
        job.sleep(5)

    job = board.post("order")
    assert len(run_due(board, handlers_of(order))) == 2
    assert (job.state, names_of(board, job)) == (JobState.COMPLETE, ["step 0", "step 1", "step 2", ":sleep"])


def test_a_step_of_an_async_handler_may_checkpoint_and_no_other_step_begins_in_it(board: JobBoard) -> None:
    async def order(job: AsyncRunningJob) -> None:
        async def work() -> int:
            await job.checkpoint_state(1)
            with pytest.raises(RuntimeError, match="can't begin in another step"):
                await job.step("inner", int)
            return 2

        await job.step("outer", work)

    job = board.post("order")
    run_due(board, handlers_of(order))
    assert (job.checkpoint, names_of(board, job)) == (1, ["outer"])


def test_an_async_handler_with_changed_steps_is_refused(board: JobBoard) -> None:
    old = Attempts("reserve", "last")
    old.fail_after = 1
    job = board.post("order")
    with pytest.raises(LookupError):
        run_due(board, handlers_of(old))

    async def order(job: AsyncRunningJob) -> None:
        await job.step("charge", int)

    with pytest.raises(StepsChanged, match="recorded as 'reserve'"):
        run_due(board, handlers_of(order))
    assert job.state is JobState.TRASHED
