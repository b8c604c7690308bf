"""Conductor processes that kill themselves, each in another phase of its one job.

``python conductor_phases.py URI BOARD EXECUTOR`` forks a conductor for each phase, and prints as JSON how each one
ended. The jobs, one for each phase and named after it, are on the board already.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from jobboard import Conductor, Handlers, JobBoard, RunningJob, fetch
from jobboard.backends.rows import Verdict
from jobboard.plugins import load_plugin

#: Of a claim, in seconds: nobody renews it any more, so that it is what the test waits for.
EXPIRY = 1.5
#: After which a conductor that did not die is ended by another signal, in seconds.
_LONGEST_LIFE = 60
#: Seconds after which a store has done what it was sent, or never will.
_ON_THE_WAY = 0.004


def die() -> None:
    """Kill the conductor, also when a worker says so; no handler comes to its end after that."""
    conductor = multiprocessing.parent_process()
    os.kill(conductor.pid if conductor and conductor.pid else os.getpid(), signal.SIGKILL)
    time.sleep(_LONGEST_LIFE)


def first(job: RunningJob) -> str:
    if job.name == "in the handler":
        die()
    return "first"


async def first_async(job: RunningJob) -> str:
    return first(job)


def second(job: RunningJob) -> str:
    return "second"


async def second_async(job: RunningJob) -> str:
    return second(job)


def handlers_for(executor: str, names: list[str], function: str) -> Handlers:
    """Return handlers for these names; asyncio has its own."""
    handlers = Handlers()
    for name in names:
        handlers.add(name, globals()[f"{function}_async" if executor == "asyncio" else function])
    return handlers


def _after_the_claim(board: JobBoard, backend: Any, executor: str) -> None:
    claim_next = backend.jobs.claim_next
    backend.jobs.claim_next = lambda *claim: claim_next(*claim) and die()


def _before_the_start(board: JobBoard, backend: Any, executor: str) -> None:
    load_plugin("jobboard.executors", executor).submit = lambda *_: die()


def _before_the_end(board: Any, backend: Any, executor: str) -> None:
    board.consume_many = lambda *_, **__: die()


def _before_the_end_arrives(board: JobBoard, backend: Any, executor: str) -> None:
    backend.jobs.consume = lambda ends: die()


def _while_the_end_is_sent(board: JobBoard, backend: Any, executor: str) -> None:
    consume = backend.jobs.consume

    def consume_and_die(ends: Any) -> None:
        threading.Timer(random.uniform(0.0, _ON_THE_WAY), die).start()
        consume(ends)
        die()

    backend.jobs.consume = consume_and_die


def _after_the_end_arrived(board: JobBoard, backend: Any, executor: str) -> None:
    consume = backend.jobs.consume

    def consume_and_die(ends: Any) -> list[Verdict]:
        verdicts: list[Verdict] = consume(ends)
        # On a busy machine the claim may be over by now.
        if verdicts == [Verdict.DONE]:
            die()
        return verdicts

    backend.jobs.consume = consume_and_die


#: What makes the conductor die in each phase.
PHASES: dict[str, Callable[[JobBoard, Any, str], None]] = {
    "after the claim": _after_the_claim,
    "before the start": _before_the_start,
    "in the handler": lambda *_: None,
    "before the end": _before_the_end,
    "before the end arrives": _before_the_end_arrives,
    "while the end is sent": _while_the_end_is_sent,
    "after the end arrived": _after_the_end_arrived,
}


def conduct(uri: str, name: str, executor: str, phase: str) -> None:
    """Work until the phase has come."""
    signal.alarm(_LONGEST_LIFE)
    with fetch(name, uri) as board:
        PHASES[phase](board, board._backend, executor)
        Conductor("first", board, handlers_for(executor, [phase], "first"), executor=executor, expiry=EXPIRY).run()


def fork(uri: str, name: str, executor: str, phase: str) -> int:
    pid = os.fork()
    if not pid:
        try:
            conduct(uri, name, executor, phase)
        finally:
            os._exit(1)
    return pid


def main(uri: str, name: str, executor: str) -> None:
    fetch(name, uri)  # imports what the store needs, and opens nothing
    pids = {phase: fork(uri, name, executor, phase) for phase in PHASES}
    ends = {phase: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for phase, pid in pids.items()}
    json.dump(ends, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
