"""Conductors as OpenStack's Octavia runs them, in processes of their own.

A stack is a board, a persistence and a conductor: TaskFlow's own, with what Octavia adds so that claims expire and are
extended; or ours, of which two things are enough. What the engines do is noted down in Redis, each line with its owner.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Any

import redis
from oslo_utils import uuidutils
from taskflow import engines, task
from taskflow.conductors import backends as conductors
from taskflow.conductors.backends import impl_blocking
from taskflow.jobs import backends as boards
from taskflow.listeners import base
from taskflow.patterns import linear_flow
from taskflow.persistence import backends as persistences
from taskflow.persistence import models

#: Seconds that a claim lasts without being extended.
EXPIRY = 2
STEPS = ("one", "two", "three", "four")
#: Step two waits until there is this key.
GATE = "gate"
LINES = "lines"


def note(what: str) -> None:
    with redis.Redis.from_url(os.environ["REDIS_URI"]) as client:
        client.rpush(LINES, f"{os.environ['ENGINE']} {what}")


class Step(task.Task):  # type: ignore[misc]
    def execute(self, port: int) -> None:
        note(f"begins {self.name}")
        if self.name == "two":
            with redis.Redis.from_url(os.environ["REDIS_URI"]) as client:
                while not client.exists(GATE):
                    time.sleep(0.02)


def flow() -> Any:
    return linear_flow.Flow("flow").add(*(Step(name) for name in STEPS))


class ExtendExpiry(base.Listener):  # type: ignore[misc]
    """Octavia's, in short."""

    def __init__(self, engine: Any, job: Any) -> None:
        super().__init__(engine)
        self._job = job

    def _task_receiver(self, state: str, details: Any) -> None:
        self._job.extend_expiry(EXPIRY)

    _flow_receiver = _retry_receiver = _task_receiver


class ExtendingConductor(impl_blocking.BlockingConductor):  # type: ignore[misc]
    def _listeners_from_job(self, job: Any, engine: Any) -> list[Any]:
        return [*super()._listeners_from_job(job, engine), ExtendExpiry(engine, job)]


def taskflows(folder: str) -> tuple[Any, Any, Any]:
    """TaskFlow's Redis board and SQL persistence, with what Octavia adds."""
    host, _, port = os.environ["REDIS_URI"].removeprefix("redis://").partition("/")[0].partition(":")
    persistence = persistences.fetch({"connection": f"sqlite:///{folder}/books.db"})
    persistence.get_connection().upgrade()
    board = boards.fetch("board", {"board": "redis", "host": host, "port": port}, persistence=persistence)
    board.claim = functools.partial(board.claim, expiry=EXPIRY)
    return persistence, board, ExtendingConductor(os.environ["ENGINE"], board, persistence=persistence)


def ours(folder: str, kind: str) -> tuple[Any, Any, Any]:
    conf = {"uri": os.environ["REDIS_URI"], "ttl": EXPIRY}
    persistence = persistences.fetch({"connection": "jobboard", **conf})
    board = boards.fetch("board", {"board": "jobboard", **conf}, persistence=persistence)
    return persistence, board, conductors.fetch(kind, os.environ["ENGINE"], board, persistence=persistence)


STACKS = {
    "TaskFlow": taskflows,
    "ours, TaskFlow's conductor": functools.partial(ours, kind="blocking"),
    "ours": functools.partial(ours, kind="jobboard_blocking"),
}


def post(persistence: Any, board: Any) -> None:
    """As Octavia's poster does."""
    name = f"flow-{uuidutils.generate_uuid()}"
    book, detail = models.LogBook(name), models.FlowDetail(name, uuidutils.generate_uuid())
    book.add(detail)
    persistence.get_connection().save_logbook(book)
    engines.save_factory_details(detail, flow, [], {}, backend=persistence)
    board.post(name, book=book, details={"store": {"port": 80}})


def conduct(conductor: Any) -> None:
    """Work off one job, and say how its engine ended."""

    def ended(event: str, details: dict[str, Any]) -> None:
        note(f"ends {details['engine'].storage.get_flow_state()}")

    conductor.notifier.register("running_end", ended)
    done = conductor._on_job_done

    def on_job_done(job: Any, future: Any) -> None:
        done(job, future)
        note("is through")
        conductor.stop()

    conductor._on_job_done = on_job_done
    conductor.run()


def main(role: str, stack: str, folder: str) -> None:
    persistence, board, conductor = STACKS[stack](folder)
    board.connect()
    if role == "post":
        post(persistence, board)
    else:
        conduct(conductor)
    board.close()
