"""Traces of OpenTelemetry: from the post of a job to the runs of its handler, across processes and stores."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobboard.errors import MissingExtra
from jobboard.telemetry import Recorder, RunningJob
from jobboard.telemetry.labels import BoundedLabels

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider
    from opentelemetry.util.types import AttributeValue


class OpenTelemetryRecorder(Recorder):
    """Makes a span for each post and for each run: pass it to :func:`jobboard.telemetry.add`.

    The first attempt's span is a child of the post's. A later attempt, which may come hours afterwards, begins a trace
    of its own with a link to the post. A step of a durable handler
    is an event of its run's span. Attributes follow the semantic conventions of messaging (1.44); none is a
    detail, a key or an owner of the job. After 200 names of jobs the spans of further ones are named ``other``, since
    collectors make metrics of the names of spans; the attribute ``messaging.destination.name`` has each.

    :param tracer_provider: None for the global one.
    :raises MissingExtra: the package ``opentelemetry-api`` is not installed.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import propagate, trace
        except ModuleNotFoundError:
            text = "traces need the Python package 'opentelemetry-api': pip install 'jobboard[otel]'"
            raise MissingExtra(text) from None
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("jobboard", tracer_provider=tracer_provider)
        self._label = BoundedLabels()

    def trace_of_post(self, board: str, name: str) -> dict[str, str]:
        carrier: dict[str, str] = {}
        attributes = _attributes(board, name, "post", "send")
        kind = self._trace.SpanKind.PRODUCER
        with self._tracer.start_as_current_span(f"post {board}/{self._label(name)}", kind=kind, attributes=attributes):
            self._propagate.inject(carrier)
        return carrier

    @contextlib.contextmanager
    def around(self, job: RunningJob) -> Iterator[None]:
        posted_in = self._propagate.extract(job.trace)
        post = self._trace.get_current_span(posted_in).get_span_context()
        is_first = job.attempts == 1
        attributes = _attributes(job.board_name, job.name, "handle", "process")
        attributes |= {"messaging.message.id": job.uuid, "jobboard.job.attempt": job.attempts}
        with self._tracer.start_as_current_span(
            f"handle {job.board_name}/{self._label(job.name)}",
            # An empty context begins a new trace, whatever span this thread may be in.
            context=posted_in if is_first else self._trace.set_span_in_context(self._trace.INVALID_SPAN),
            kind=self._trace.SpanKind.CONSUMER,
            links=[self._trace.Link(post)] if post.is_valid and not is_first else [],
            attributes=attributes,
        ):
            yield

    def stepped(self, job: RunningJob, step: str, seconds: float) -> None:
        self._trace.get_current_span().add_event("step", {"jobboard.step.name": step, "jobboard.step.seconds": seconds})


def _attributes(board: str, name: str, operation: str, kind: str) -> dict[str, AttributeValue]:
    return {
        "messaging.system": "jobboard",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": f"{board}/{name}",
    }
