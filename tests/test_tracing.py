"""Traces of OpenTelemetry from the post to each run of the handler."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.work import QUICK
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from jobboard import Conductor, Handlers, JobBoard, fetch, telemetry
from jobboard.telemetry.labels import MAX_NAMES
from jobboard.telemetry.otel import OpenTelemetryRecorder
from jobboard.testing import eventually


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with fetch("main", f"memory://{uuid.uuid4().hex}") as board:
        yield board


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    remove = telemetry.add(OpenTelemetryRecorder(provider))
    yield exporter
    remove()


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def worked_off(board: JobBoard, handlers: Handlers) -> None:
    conductor = Conductor("crew", board, handlers)
    conductor.start()
    eventually(lambda: not any(True for _ in board.iterjobs()))
    assert conductor.stop()


def test_the_first_run_is_a_child_of_the_post(board: JobBoard, spans: InMemorySpanExporter) -> None:
    handlers, seen = Handlers(), list[int]()
    handlers.add("resize", lambda job: seen.append(trace.get_current_span().get_span_context().span_id))
    job = board.post("resize", details={"secret": "s3cret"}, key="s3cret")
    worked_off(board, handlers)
    [posted], [handled] = named(spans, "post main/resize"), named(spans, "handle main/resize")
    assert posted.context is not None
    assert handled.context is not None
    assert handled.parent is not None
    assert handled.parent.span_id == posted.context.span_id
    assert handled.context.trace_id == posted.context.trace_id
    assert seen == [handled.context.span_id]
    assert (posted.kind, handled.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
    assert handled.attributes == {
        "messaging.system": "jobboard",
        "messaging.operation.name": "handle",
        "messaging.operation.type": "process",
        "messaging.destination.name": "main/resize",
        "messaging.message.id": job.uuid,
        "jobboard.job.attempt": 1,
    }


def test_a_retry_is_a_trace_of_its_own_with_a_link(board: JobBoard, spans: InMemorySpanExporter) -> None:
    handlers = Handlers()

    def fail(job: Any) -> None:
        raise RuntimeError("no disk")

    handlers.add("failing", fail, max_attempts=2, backoff=QUICK)
    board.post("failing")
    worked_off(board, handlers)
    [posted], [first, second] = named(spans, "post main/failing"), named(spans, "handle main/failing")
    assert posted.context is not None
    assert second.context is not None
    assert first.parent is not None
    assert (second.parent, first.links) == (None, ())
    assert second.context.trace_id != posted.context.trace_id
    assert [link.context.span_id for link in second.links] == [posted.context.span_id]
    assert [span.status.status_code for span in (first, second)] == [trace.StatusCode.ERROR] * 2


def test_an_async_handler_runs_in_its_span(board: JobBoard, spans: InMemorySpanExporter) -> None:
    handlers, seen = Handlers(), list[int]()

    async def slow(job: Any) -> None:
        await asyncio.sleep(0)
        seen.append(trace.get_current_span().get_span_context().span_id)

    handlers.add("slow", slow)
    board.post("slow")
    worked_off(board, handlers)
    [handled] = named(spans, "handle main/slow")
    assert handled.context is not None
    assert seen == [handled.context.span_id]


def test_a_job_that_was_posted_without_a_trace_begins_one(board: JobBoard, spans: InMemorySpanExporter) -> None:
    handlers = Handlers()
    handlers.add("resize", lambda job: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenTelemetryRecorder, "trace_of_post", lambda self, board, name: {})
        telemetry.add(telemetry.Recorder())()
        board.post("resize")
    telemetry.add(telemetry.Recorder())()
    worked_off(board, handlers)
    [handled] = named(spans, "handle main/resize")
    assert handled.parent is None
    assert handled.links == ()


@pytest.mark.parametrize("trace", [{"traceparent": "x" * 600}, {"traceparent": 7}, {3: "x"}])
def test_a_trace_that_is_none_is_dropped(board: JobBoard, trace: Any) -> None:
    class Odd(telemetry.Recorder):
        def trace_of_post(self, board: str, name: str) -> dict[str, str]:
            return trace  # type: ignore[no-any-return]

    remove = telemetry.add(Odd())
    try:
        job = board.post("resize")
    finally:
        remove()
    assert board.get(job.uuid).trace == {}


def test_names_of_spans_are_bounded(board: JobBoard, spans: InMemorySpanExporter) -> None:
    """Collectors make metrics of them, and posters choose the jobs' names."""
    names = [f"job {number}" for number in range(MAX_NAMES + 50)]
    for name in names:
        board.post(name)
    handlers = Handlers()
    for name in names:
        handlers.add(name, lambda job: None)
    worked_off(board, handlers)
    found = spans.get_finished_spans()
    for verb in ("post", "handle"):
        made = [span for span in found if span.name.startswith(f"{verb} ")]
        assert len({span.name for span in made}) == MAX_NAMES + 1
        assert sum(span.name == f"{verb} main/other" for span in made) == 50
        assert {(span.attributes or {})["messaging.destination.name"] for span in made} == {f"main/{n}" for n in names}
