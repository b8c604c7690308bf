"""Every public argument in seconds takes a timedelta too: a table of all of them, which can't miss one."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from helpers.retentions import aio_consume, aio_consume_many, by_declared, consume, consume_many, hundreds

from jobboard import (
    AsyncRunningJob,
    Backoff,
    Conductor,
    Entity,
    Every,
    Handlers,
    Job,
    JobBoard,
    Posting,
    RunAgain,
    RunningJob,
    Schedule,
    Scheduler,
    Schedules,
    aio,
    fetch,
)
from jobboard.backends.options import seconds as option_in_seconds
from jobboard.board import client_of
from jobboard.job import row_of
from jobboard.plugins import load_plugin, plugin_names
from jobboard.testing import Clock, clock_of, eventually, memory_board, run_due
from jobboard.validation import new_uuid

SPAN = 5000.0

Call = Callable[[JobBoard, Any], Any]


def _delay_of(job: Job) -> float:
    assert job.run_at is not None
    return (job.run_at - job.created_on).total_seconds()


def _claimed(board: JobBoard) -> Job:
    board.post("a")
    (job,) = board.claim_next("me", expiry=math.inf)
    return job


def _left(job: Job) -> int:
    """The seconds until the claim ends, in hundreds: the test itself takes some."""
    seconds = job.expires_in()
    assert seconds is not None
    return hundreds(seconds)


def claim(board: JobBoard, span: Any) -> int:
    job = board.post("a")
    board.claim(job, "me", span)
    return _left(job)


def claim_next(board: JobBoard, span: Any) -> int:
    board.post("a")
    return _left(board.claim_next("me", expiry=span)[0])


def extend(board: JobBoard, span: Any) -> int:
    board.extend(job := _claimed(board), "me", span)
    return _left(job)


def extend_many(board: JobBoard, span: Any) -> int:
    board.extend_many([job := _claimed(board)], "me", span)
    return _left(job)


def extend_expiry(board: JobBoard, span: Any) -> int:
    (job := _claimed(board)).extend_expiry(span)
    return _left(job)


def keep(board: JobBoard, span: Any) -> int:
    with board.keep("me", span):
        board.post("a")
        (job,) = board.claim_next("me", expiry=1.5)
        eventually(lambda: (job.expires_in() or 0) > 2)
        return _left(job)


def abandon(board: JobBoard, span: Any) -> int:
    board.abandon(job := _claimed(board), "me", delay=span)
    seen = board.get(job.uuid)
    assert seen.run_at is not None
    return hundreds((seen.run_at - seen.record.last_modified).total_seconds())


def connect(board: JobBoard, span: Any) -> bool:
    other = fetch("timedeltas", "memory://timedeltas")
    other.connect(span)
    other.close()
    return other.connected


def migrate(board: JobBoard, span: Any) -> Any:
    with TemporaryDirectory() as folder:
        return fetch("timedeltas", f"sqlite:///{folder}/jobs.db").migrate(span)


def statements_of_migration(board: JobBoard, span: Any) -> list[str]:
    with TemporaryDirectory() as folder:
        stored = fetch("timedeltas", f"sqlite:///{folder}/jobs.db")
        stored.migrate()
        return stored.statements_of_migration(span)


def option(name: str) -> Call:
    return lambda board, span: getattr(client_of(fetch("timedeltas", "memory://timedeltas", **{name: span})), name)


def conductor(board: JobBoard, span: Any, option: str = "expiry") -> int:
    """What a handler sees of its claim."""
    handlers, seen = Handlers(), []

    @handlers.handler("look")
    def look(job: RunningJob) -> None:
        seen.append(_left(board.get(job.uuid)))

    job = board.post("look")
    working = Conductor("c", board, handlers, **{option: span})
    working.start()
    job.get_result(timeout=30)
    working.stop()
    return seen[0]


def working(board: JobBoard) -> Conductor:
    handlers = Handlers()
    handlers.add("never", print)
    made = Conductor("c", board, handlers)
    made.start()
    return made


def conductor_wait(board: JobBoard, span: Any) -> bool:
    made = working(board)
    try:
        return made.wait(_short(span))
    finally:
        made.stop()


def scheduler_wait(board: JobBoard, span: Any) -> bool:
    made = Scheduler(board)
    made.start()
    try:
        return made.wait(_short(span))
    finally:
        made.stop()


def by_decorator(span: Any, option: str = "timeout") -> Handlers:
    handlers = Handlers()
    handlers.handler("pack", **{option: span})(print)  # type: ignore[call-overload]
    return handlers


def lifespan(_board: JobBoard, span: Any) -> float:
    handlers = Handlers()

    @handlers.lifespan(timeout=span)
    def resources() -> Iterator[None]:
        yield

    handlers.add("pack", print)
    return handlers["pack"].lifespan.timeout


def in_handlers(option: str) -> dict[str, Call]:
    """All ways in which handlers get an option."""

    def got(make: Callable[[Any], Handlers]) -> Call:
        return lambda board, span: getattr(make(span)["pack"], option)

    def batched(span: Any) -> Handlers:
        handlers = Handlers()
        handlers.batch("pack", **{option: span})(print)
        return handlers

    return {
        f"Handlers({option})": got(lambda span: added(Handlers(**{option: span}))),
        f"Handlers.handler({option})": got(lambda span: by_decorator(span, option)),
        f"Handlers.add({option})": got(lambda span: added(Handlers(), **{option: span})),
        f"Handlers.batch({option})": got(batched),
    }


def added(handlers: Handlers, **options: Any) -> Handlers:
    handlers.add("pack", print, **options)
    return handlers


def key_for(post: Callable[..., Job]) -> Call:
    def left(board: JobBoard, span: Any) -> int:
        key = new_uuid()
        post(board, key=key, key_for=span)
        store = board._backend.store
        return hundreds(store.windows["a", key][1] - store.clock())

    return left


def max_delay(post: Callable[..., Job]) -> Call:
    def left(board: JobBoard, span: Any) -> int:
        ties = row_of(job := post(board, key=new_uuid(), max_delay=span)).ties
        assert ties is not None
        assert ties.latest is not None
        return hundreds(ties.latest - job.created_on.timestamp())

    return left


def by_post(board: JobBoard, **options: Any) -> Job:
    return board.post("a", **options)


def by_posting(board: JobBoard, **options: Any) -> Job:
    return board.post_many([Posting("a", **options)])[0]


def asleep(board: JobBoard, span: Any) -> int:
    """How long a handler's sleep takes on the board's clock, which the test kit moves on."""
    return _in_handler(board, lambda job: job.sleep(span))


def asleep_in_coroutine(board: JobBoard, span: Any) -> int:
    async def sleep(job: AsyncRunningJob) -> None:
        await job.sleep(span)

    return _in_handler(board, sleep)


def _in_handler(board: JobBoard, handler: Callable[[Any], Any]) -> int:
    handlers, before = Handlers(), clock_of(board).now()
    handlers.add("sleep", handler)
    board.post("sleep")
    run_due(board, handlers)
    return hundreds((clock_of(board).now() - before).total_seconds())


def waits(board: JobBoard, span: Any) -> int:
    return _waiting(board, lambda job: job.wait_for("go", timeout=span))


def waits_in_coroutine(board: JobBoard, span: Any) -> int:
    async def wait_for(job: AsyncRunningJob) -> None:
        await job.wait_for("go", timeout=span)

    return _waiting(board, wait_for)


def _waiting(board: JobBoard, handler: Callable[[Any], Any]) -> int:
    """For how long a handler waits for a signal at most."""
    handlers = Handlers()
    handlers.add("wait", handler)
    job = board.post("wait")
    run_due(board, handlers)
    seen = board.get(job.uuid)
    assert seen.run_at is not None
    return hundreds((seen.run_at - seen.record.last_modified).total_seconds())


def paused_for(board: JobBoard, span: Any) -> int:
    board.pause(lane="a", duration=span)
    limit = board.limits.get(lane="a")
    assert limit is not None
    assert limit.paused_until is not None
    return hundreds((limit.paused_until - clock_of(board).now()).total_seconds())


def batch_wait(board: JobBoard, span: Any) -> Any:
    handlers = Handlers()
    handlers.batch("pack", wait=span)(print)
    return handlers["pack"].batch


def _short(span: Any) -> Any:
    """A small part of a span, to wait for; of the same type, and negative if it is."""
    return span / 100_000


def through_aio(act: Callable[[aio.AsyncJobBoard, Any], Any]) -> Call:
    return lambda board, span: anyio.run(act, aio.AsyncJobBoard(board), span)


async def aio_wait(board: aio.AsyncJobBoard, span: Any) -> list[aio.AsyncJob]:
    return [job async for job in board.wait(_short(span), names=["none"])]


async def aio_keep(board: aio.AsyncJobBoard, span: Any) -> bool:
    async with board.keep("somebody", span) as keeper:
        return keeper.held == []


async def aio_job_wait(board: aio.AsyncJobBoard, span: Any) -> bool:
    return await (await board.post("a")).wait(_short(span))


async def aio_get_result(board: aio.AsyncJobBoard, span: Any) -> Any:
    with pytest.raises(TimeoutError):
        await (await board.post("a")).get_result(_short(span))


def get_result(board: JobBoard, span: Any) -> None:
    with pytest.raises(TimeoutError):
        board.post("a").get_result(_short(span))


def move(board: JobBoard, span: Any) -> int:
    clock = clock_of(board)
    before = clock.now()
    return hundreds((clock.move(span) - before).total_seconds())


TABLE: dict[str, Call] = {
    "JobBoard.post(delay)": lambda board, span: _delay_of(board.post("a", delay=span)),
    "Posting(delay)": lambda board, span: _delay_of(board.post_many([Posting("a", delay=span)])[0]),
    "JobBoard.post(key_for)": key_for(by_post),
    "JobBoard.post(max_delay)": max_delay(by_post),
    "Posting(key_for)": key_for(by_posting),
    "Posting(max_delay)": max_delay(by_posting),
    "RunningJob.sleep(seconds)": asleep,
    "RunningJob.wait_for(timeout)": waits,
    "AsyncRunningJob.sleep(seconds)": asleep_in_coroutine,
    "JobBoard.pause(duration)": paused_for,
    "AsyncRunningJob.wait_for(timeout)": waits_in_coroutine,
    "Handlers.batch(wait)": batch_wait,
    "JobBoard.claim(expiry)": claim,
    "JobBoard.claim_next(expiry)": claim_next,
    "JobBoard.extend(expiry)": extend,
    "JobBoard.extend_many(expiry)": extend_many,
    "JobBoard.keep(expiry)": keep,
    "JobBoard.abandon(delay)": abandon,
    "JobBoard.connect(timeout)": connect,
    "JobBoard.migrate(timeout)": migrate,
    "JobBoard.statements_of_migration(timeout)": statements_of_migration,
    "JobBoard.wait(timeout)": lambda board, span: list(board.wait(_short(span), ["none"])),
    "Job.extend_expiry(seconds)": extend_expiry,
    "Job.wait(timeout)": lambda board, span: board.post("a").wait(_short(span)),
    "Job.get_result(timeout)": get_result,
    "AsyncJobBoard.wait(timeout)": through_aio(aio_wait),
    "AsyncJobBoard.keep(expiry)": through_aio(aio_keep),
    "AsyncJob.wait(timeout)": through_aio(aio_job_wait),
    "AsyncJob.get_result(timeout)": through_aio(aio_get_result),
    "Conductor(expiry)": conductor,
    "Conductor(grace)": lambda board, span: conductor(board, span, "grace"),
    "Conductor.wait(timeout)": conductor_wait,
    "Conductor.stop(timeout)": lambda board, span: working(board).stop(timeout=span),
    "Scheduler.wait(timeout)": scheduler_wait,
    "Scheduler.stop(timeout)": lambda board, span: Scheduler(board).stop(span),
    **in_handlers("timeout"),
    "Handlers.lifespan(timeout)": lifespan,
    **in_handlers("give_up_after"),
    **in_handlers("silent_for"),
    **{name: call for name, call in in_handlers("retention").items() if name != "Handlers(retention)"},
    **{f"Handlers.{way}(key_for)": key_for(by_declared(way)) for way in ("handler", "add", "batch")},
    "JobBoard.consume(retention)": consume,
    "JobBoard.consume_many(retentions)": consume_many,
    "AsyncJobBoard.consume(retention)": through_aio(aio_consume),
    "AsyncJobBoard.consume_many(retentions)": through_aio(aio_consume_many),
    "Backoff(first)": lambda board, span: Backoff(first=span),
    "Backoff(most)": lambda board, span: Backoff(most=span),
    "RunAgain(after)": lambda board, span: RunAgain(after=span).after,
    "Entity(ttl)": lambda board, span: Entity("robot", "r2", ttl=span),
    "Schedule(misfire_grace)": lambda board, span: Schedule("s", Every(hours=1), "a", misfire_grace=span),
    "Schedule(jitter)": lambda board, span: Schedule("s", Every(hours=1), "a", jitter=span).to_plain(),
    "Every(seconds)": lambda board, span: Every(seconds=span).to_plain(),
    "Clock.move(seconds)": move,
    "eventually(within)": lambda board, span: eventually(lambda: True, within=span),
    "eventually(every)": lambda board, span: eventually(lambda: True, every=span),
    **{f"fetch({name})": option(name) for name in ("expiry", "retention", "patience", "least_interval")},
}

#: What has them; the methods of a board for asyncio that are not its own are those of the plain one.
PUBLIC: list[Any] = [
    JobBoard, Job, Posting, aio.AsyncJobBoard, aio.AsyncJob, Schedules, Schedule, Every, Entity, Conductor, Scheduler,
    Handlers, Backoff, RunAgain, RunningJob, AsyncRunningJob, Clock, eventually,
]  # fmt: skip


def arguments(kind: str) -> set[str]:
    """The public arguments whose hints name this type."""
    return {found for public in PUBLIC for name, call in _calls(public) for found in _arguments(name, call, kind)}


def _calls(public: Any) -> Iterator[tuple[str, Any]]:
    yield public.__name__, public
    for name, method in inspect.getmembers(public, inspect.isfunction) if inspect.isclass(public) else ():
        if not name.startswith("_"):
            yield f"{public.__name__}.{name}", method


def _arguments(name: str, call: Any, kind: str) -> Iterator[str]:
    for argument in inspect.signature(call).parameters.values():
        if kind in re.findall(r"\w+", str(argument.annotation)):
            yield f"{name}({argument.name})"


def test_the_table_has_every_argument_in_seconds() -> None:
    awaited = {name for name in arguments("Seconds") if name.startswith("Async") and name.replace("Async", "") in TABLE}
    assert arguments("Seconds") - awaited == {name for name in TABLE if not name.startswith(("fetch", "Async"))}
    assert awaited >= {name for name in TABLE if name.startswith("Async")}


def test_no_other_argument_is_in_seconds() -> None:
    assert arguments("float") == {
        "Backoff(factor)", "Backoff(jitter)", "Every(weeks)", "Every(days)", "Every(hours)", "Every(minutes)",
        "RunningJob.progress(done)", "RunningJob.progress(total)",
        "AsyncRunningJob.progress(done)", "AsyncRunningJob.progress(total)",
    }  # fmt: skip


@pytest.mark.parametrize("argument", TABLE)
def test_a_timedelta_is_as_good_as_its_seconds(argument: str) -> None:
    call = TABLE[argument]
    with memory_board() as board:
        assert call(board, timedelta(seconds=SPAN)) == call(board, SPAN)


@pytest.mark.parametrize("argument", sorted(set(TABLE) - {"eventually(within)", "eventually(every)"}))
def test_a_timedelta_that_is_out_of_range_is_refused(argument: str) -> None:
    with memory_board() as board, pytest.raises(ValueError, match="seconds"):
        TABLE[argument](board, timedelta(seconds=-1))


@pytest.mark.parametrize("scheme", plugin_names("jobboard.backends"))
def test_options_of_stores_take_them_too(scheme: str) -> None:
    options = load_plugin("jobboard.backends", scheme).options
    for name, convert in options.items():
        if convert is option_in_seconds or name == "busy_timeout":
            assert convert(timedelta(minutes=1)) == convert("60") == 60.0
