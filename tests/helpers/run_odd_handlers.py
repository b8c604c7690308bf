"""A program that runs all odd handlers on one executor, and ordinary jobs after each; prints a line for each."""

from __future__ import annotations

import json
import multiprocessing
import sys
import threading
import uuid

from helpers import odd_handlers
from jobboard import Conductor, JobBoard, JobState, fetch
from jobboard.testing import eventually

ENDED = (JobState.COMPLETE, JobState.TRASHED)


def run(board: JobBoard, conductor: Conductor, name: str, what: str | None) -> str | None:
    job = board.post(name, details={"what": what})
    current = conductor._run
    assert current is not None
    try:
        eventually(lambda: board.get(job.uuid).record.state in ENDED, 30)
        for after in ("echo", "echo_later"):
            if not board.post(after, details={"n": 1}).wait(30):
                return f"{after} was not run afterwards"
        eventually(lambda: not current._renewer.held() and current._slots.taken == 0)
    except AssertionError as error:
        return f"{board.get(job.uuid).record}: {error}"
    return None


def main(executor: str) -> None:
    with fetch("work", f"memory://{uuid.uuid4().hex}") as board:
        conductor = Conductor(
            "odd", board, odd_handlers.handlers, executor=executor, concurrency=2, grace=0.05, max_stuck=50
        )
        conductor.start()
        for label, name, what in odd_handlers.postings(executor):
            print(json.dumps([label, run(board, conductor, name, what)]), file=sys.__stdout__, flush=True)
        odd_handlers.gate.set()
        stuck = conductor._run
        assert stuck is not None
        fault = None
        try:
            eventually(lambda: stuck.health()["stuck"] == 0)
            if not conductor.stop(timeout=10):
                fault = f"the stop was not clean: {stuck.health()} {stuck._slots.__dict__}"
            eventually(lambda: not [each for each in threading.enumerate() if each.name.startswith("jobboard-slot")])
            eventually(lambda: "jobboard-asyncio" not in {each.name for each in threading.enumerate()})
            eventually(lambda: not multiprocessing.active_children())
        except AssertionError:
            names = [each.name for each in threading.enumerate()]
            fault = f"left: {stuck.health()} {names} {multiprocessing.active_children()}"
        print(json.dumps(["the end", fault]), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
