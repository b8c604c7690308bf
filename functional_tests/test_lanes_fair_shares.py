"""One lane with a hundred times the jobs of others delays them hardly; and what docs once led a SaaS team to write."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

import pytest
from servers.durable_stores import running
from servers.redis_servers import RedisServer

from jobboard import Conductor, Handlers, JobBoard, Posting, RunningJob, fetch
from jobboard.testing import eventually

TENANTS, JOBS_OF_EACH, FLOOD, SLOTS, LIMIT = 20, 10, 100, 8, 2


@pytest.fixture(params=["memory", "sqlite", "redis"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield "memory://"
        return
    with running(request.param, tmp_path) as store:
        yield store.uri


def waits_of(board: JobBoard, flood: int) -> list[int]:
    """Return after how many rounds each of the others' jobs was claimed; in each round all slots run one job.

    :param flood: how many jobs the one lane has, which are posted before those of the others.
    """
    board.limits.set(lane="tenant:*", running=LIMIT)
    board.post_many([Posting("resize", lane="tenant:flood") for _ in range(flood)])
    board.post_many([Posting("resize", lane=f"tenant:{each}") for _ in range(JOBS_OF_EACH) for each in range(TENANTS)])
    waits: list[int] = []
    for number in range(TENANTS * JOBS_OF_EACH + flood):
        jobs = board.claim_next("alice", limit=SLOTS, expiry=600)
        waits += [number for job in jobs if job.lane != "tenant:flood"]
        assert max(Counter(job.lane for job in jobs).values()) <= LIMIT
        assert board.consume_many(jobs, "alice") == [None] * len(jobs)
        if len(waits) == TENANTS * JOBS_OF_EACH:
            break
    assert len(waits) == TENANTS * JOBS_OF_EACH
    return waits


def test_a_flood_in_one_lane_delays_the_others_hardly(uri: str) -> None:
    p95 = {}
    for flood in (0, FLOOD * JOBS_OF_EACH):
        with fetch(f"shares {flood} {time.time_ns()}", uri) as board:
            p95[flood] = quantiles(waits_of(board, flood), n=20)[-1]
    assert p95[FLOOD * JOBS_OF_EACH] <= 1.5 * p95[0]


@pytest.mark.timeout(300)
@pytest.mark.turn_of("fair shares")
def test_a_tenant_with_5000_jobs_holds_up_no_other() -> None:
    """With a handler that put back its jobs while two of its tenant ran, B had not started after a minute."""
    started: Counter[str] = Counter()
    b_has_started, lock = threading.Event(), threading.Lock()
    handlers = Handlers()

    def work(job: RunningJob) -> None:
        with lock:
            started[job.uuid] += 1
        if job.details["tenant"] == "B":
            b_has_started.set()
        else:
            time.sleep(0.002)

    handlers.add("resize", work)
    with RedisServer() as server, fetch("saas", server.uri) as board:
        board.limits.set(lane="tenant:*", running=2)
        board.post_many([Posting("resize", details={"tenant": "A"}, lane="tenant:A") for _ in range(5000)])
        conductor = Conductor("worker", board, handlers, concurrency=8)
        conductor.start()
        try:
            eventually(lambda: len(started) > 10)
            board.post("resize", {"tenant": "B"}, lane="tenant:B")
            assert b_has_started.wait(2.0)
            assert len(started) < 5001, "A had jobs left"
            eventually(lambda: board.job_count == 0, within=120)
        finally:
            conductor.stop(timeout=20)
        assert len(started) == 5001
        assert set(started.values()) == {1}
        assert board.audit() == []
