"""The recipe for Sentry in the documentation."""

from __future__ import annotations

import runpy
import uuid
from pathlib import Path
from typing import Any

import sentry_sdk
from helpers.work import QUICK

from jobboard import Conductor, Handlers, RunAgain, fetch, telemetry
from jobboard.testing import eventually

RECIPE = Path(__file__).parent.parent / "doc" / "examples" / "sentry_recorder.py"


def test_what_handlers_raise_is_reported_with_the_job_and_without_its_details() -> None:
    events: list[dict[str, Any]] = []
    handlers = Handlers()

    @handlers.handler("failing", max_attempts=2, backoff=QUICK)
    def failing(job: Any) -> None:
        raise RuntimeError("no disk")

    @handlers.handler("twice")
    def twice(job: Any) -> None:
        if job.checkpoint is None:
            job.checkpoint_state("seen")
            raise RunAgain

    def note(event: Any, hint: Any) -> None:
        events.append(event)

    recipe = runpy.run_path(str(RECIPE))
    sentry_sdk.init("https://key@sentry.invalid/1", before_send=note, default_integrations=False)
    remove = telemetry.add(recipe["SentryRecorder"]())
    try:
        with fetch("main", f"memory://{uuid.uuid4().hex}") as board:
            job = board.post("failing", details={"secret": "s3cret"})
            board.post("twice")
            conductor = Conductor("crew", board, handlers)
            conductor.start()
            eventually(lambda: not any(True for _ in board.iterjobs()))
            assert conductor.stop()
    finally:
        remove()
        sentry_sdk.init()
    assert [event["contexts"]["job"] for event in events] == [{"uuid": job.uuid, "attempt": n} for n in (1, 2)]
    assert [event["exception"]["values"][-1]["value"] for event in events] == ["no disk"] * 2
    assert [(event["transaction"], event["tags"]["jobboard.board"]) for event in events] == [("failing", "main")] * 2
    assert "s3cret" not in repr(events)
