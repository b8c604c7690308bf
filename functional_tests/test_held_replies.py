"""Servers whose replies to a claim are held for longer than the claim lasts: no handler begins under it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from servers.base import HOST
from servers.durable_stores import server_of
from servers.proxy import Proxy

from jobboard import Conductor, Handlers, JobBoard, JobState, RunningJob, fetch
from jobboard.board import client_of
from jobboard.testing import eventually

#: Of a claim, and for which the replies are held, in seconds.
EXPIRY, HELD = 2.0, 3.5
JOBS = 3


@pytest.fixture(scope="module", params=["redis", "etcd", "postgresql", "mariadb", "zookeeper"])
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    with server_of(request.param) as server:
        yield server


@pytest.fixture
def proxy(server: Any) -> Iterator[Proxy]:
    with Proxy((HOST, server.port)) as proxy:
        yield proxy


class Claims:
    """Holds the replies to the first claim that finds jobs, and notes when each claim was sent."""

    def __init__(self, board: JobBoard, proxy: Proxy) -> None:
        self.sent: dict[int, float] = {}
        self.held: list[int] = []
        self._proxy = proxy
        self._backend: Any = client_of(board).backend
        self._claim_next = self._backend.jobs.claim_next
        self._backend.jobs.claim_next = self

    def __call__(self, *arguments: Any) -> Any:
        sent, is_held = time.monotonic(), not self.held
        if is_held:
            self._proxy.silence()
            timer = threading.Timer(HELD, self._proxy.speak)
            timer.start()
        rows = self._claim_next(*arguments)
        self.sent |= {row.token: sent for row in rows}
        if is_held:
            self.held += [row.token for row in rows]
        return rows


def test_no_handler_begins_after_its_claim_is_over(server: Any, proxy: Proxy) -> None:
    name, handlers, begun = f"held-{uuid.uuid4().hex[:8]}", Handlers(), dict[int, float]()

    def note(job: RunningJob) -> None:
        begun[job.token] = time.monotonic()

    handlers.add("step", note)
    behind = server.uri.replace(f":{server.port}", f":{proxy.port}")
    with fetch(name, server.uri) as direct, fetch(name, behind) as board:
        jobs = [direct.post("step") for _ in range(JOBS)]
        claims = Claims(board, proxy)
        conductor = Conductor("held", board, handlers, concurrency=JOBS, expiry=EXPIRY)
        conductor.start()
        run = conductor._run
        assert run is not None
        # It may be too late to end an execution before it begins.
        run._deadlines.stop()
        try:
            eventually(lambda: all(job.state is JobState.COMPLETE for job in jobs), 60)
        finally:
            conductor.stop(drain=False)
        assert len(claims.held) == JOBS
        assert not set(claims.held) & set(begun)
        assert [token for token, at in begun.items() if at >= claims.sent[token] + EXPIRY] == []
        assert direct.audit() == []
