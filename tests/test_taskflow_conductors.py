"""What TaskFlow's own tests don't ask of our conductors: they wait, they survive, and they stop a late engine."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from taskflow import engines, exceptions, states, task
from taskflow.conductors import backends as conductors
from taskflow.jobs import backends
from taskflow.patterns import linear_flow
from taskflow.persistence.backends import impl_memory
from taskflow.utils import persistence_utils

from jobboard.operate.status import status
from jobboard.operate.verdict import Limits
from jobboard.operate.views import owners
from jobboard.operate.why import why
from jobboard.participants import runs_of
from jobboard.quiet import set_quiet
from jobboard.testing import eventually

#: What the tasks did, and what lets the first of them end.
RAN: list[str] = []
MAY_END, HAS_BEGUN = threading.Event(), threading.Event()


class Slow(task.Task):  # type: ignore[misc]
    def execute(self) -> None:
        RAN.append(self.name)
        HAS_BEGUN.set()
        assert MAY_END.wait(60)


class Quick(task.Task):  # type: ignore[misc]
    def execute(self) -> None:
        RAN.append(self.name)


def slow_flow() -> Any:
    return linear_flow.Flow("slow").add(Slow("first"), Quick("second"))


def quick_flow() -> Any:
    return linear_flow.Flow("quick").add(Quick("only"))


class Site:
    def __init__(self) -> None:
        self.persistence = impl_memory.MemoryBackend()
        conf = {"board": "jobboard", "uri": "memory://", "namespace": f"tf-{uuid.uuid4().hex}", "ttl": 3}
        self.board = backends.fetch("test", conf, persistence=self.persistence)
        self.board.connect()
        self.conductor: Any = None
        self.thread: threading.Thread | None = None
        self.events: list[str] = []

    def post(self, factory: Any) -> Any:
        book, detail = persistence_utils.temporary_flow_detail(self.persistence)
        engines.save_factory_details(detail, factory, [], {}, backend=self.persistence)
        return self.board.post("flow", book, details={"flow_uuid": detail.uuid})

    def flow_state(self, job: Any) -> str:
        return str(self.persistence.get_connection().get_flow_details(job.details["flow_uuid"]).state)

    def start(self, kind: str, **options: Any) -> None:
        # A poll would come too late for every test here.
        self.conductor = conductors.fetch(
            kind, "conductor", self.board, persistence=self.persistence, wait_timeout=0.05
        )
        for event in ("job_consumed", "job_abandoned", "job_trashed"):
            self.conductor.notifier.register(event, lambda event, details: self.events.append(event))
        self.thread = threading.Thread(target=self.conductor.run, kwargs=options, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        MAY_END.set()
        if self.conductor is not None:
            self.conductor.stop()
            assert self.conductor.wait(30)
        self.board.close()


@pytest.fixture
def site() -> Iterator[Site]:
    RAN.clear()
    MAY_END.clear()
    HAS_BEGUN.clear()
    site = Site()
    yield site
    site.stop()


KINDS = pytest.mark.parametrize("kind", ["jobboard_blocking", "jobboard_nonblocking"])


@KINDS
def test_a_conductor_survives_a_store_that_fails(site: Site, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([exceptions.JobFailure("not now")] * 2)
    claim_next = site.board.claim_next

    def failing(who: str) -> Any:
        for failure in failures:
            raise failure
        return claim_next(who)

    monkeypatch.setattr(site.board, "claim_next", failing)
    job = site.post(quick_flow)
    site.start(kind)
    assert job.wait(30)
    assert list(failures) == []
    assert eventually(lambda: site.events == ["job_consumed"])


@KINDS
def test_a_conductor_wakes_for_a_stop_while_it_waits(site: Site, kind: str) -> None:
    job = site.post(quick_flow)
    site.start(kind)
    assert job.wait(30)
    site.conductor.stop()
    assert site.conductor.wait(30)


@KINDS
def test_a_conductor_dispatches_no_more_than_it_may(site: Site, kind: str) -> None:
    jobs = [site.post(quick_flow) for _ in range(3)]
    site.start(kind, max_dispatches=2)
    assert site.conductor.wait(30)
    assert [job.state for job in jobs] == [states.COMPLETE, states.COMPLETE, states.UNCLAIMED]


@KINDS
def test_an_engine_whose_claim_is_lost_runs_no_further_task(site: Site, kind: str) -> None:
    job = site.post(slow_flow)
    site.start(kind, max_dispatches=1)
    assert HAS_BEGUN.wait(30)
    site.board.board.pause()
    [handle] = [claim.job for claim in site.board._keeper._jobs.values()]
    site.board.board.release(job.uuid, reason="test")
    assert eventually(lambda: handle.claim_lost)
    MAY_END.set()
    assert site.conductor.wait(30)
    assert (RAN, site.flow_state(job), job.state) == (["first"], states.SUSPENDED, states.UNCLAIMED)


def test_our_conductors_need_our_board() -> None:
    with pytest.raises(TypeError, match="TaskFlowBoard"):
        conductors.fetch("jobboard_blocking", "conductor", object())


@KINDS
def test_operators_see_what_a_conductor_runs(site: Site, kind: str) -> None:
    site.start(kind)
    job = site.post(slow_flow)
    assert HAS_BEGUN.wait(30)
    board = site.board.board
    shown = site.board.conductor("conductor")
    # The keeper's thread does so next: a second one would let an old answer win.
    shown.heartbeat.register_again()
    assert eventually(lambda: runs_of(next(iter(board.entities()))))
    [entity] = board.entities()
    slots = site.conductor._slots()
    assert (entity.name, entity.metadata["names"], entity.metadata["running"]) == ("conductor", "*", 1)
    assert ([run.uuid for run in runs_of(entity)], entity.metadata["concurrency"]) == ([job.uuid], slots)
    waiting = [board.post(name, priority="low") for name in ("a", "b", "c")] if slots == 1 else []
    assert [[reason.kind for reason in why(board, one)] for one in waiting] == [
        ["no_free_slot"], ["no_free_slot", "behind"], ["no_free_slot", "behind"],
    ][: len(waiting)]  # fmt: skip
    seen = status(board, Limits(wait=600, run=600, unhandled=-1))
    assert (seen["verdict"], seen["conductors"]["longest"]["uuid"]) == ("WELL", job.uuid)
    assert [owner["alive"] for owner in owners(board)] == [True]
    site.conductor.stop()
    MAY_END.set()
    assert site.conductor.wait(30)
    assert eventually(lambda: list(board.entities()) == [])


@pytest.mark.parametrize("kind", ["blocking", "jobboard_blocking", "jobboard_nonblocking"])
def test_a_quiet_conductor_claims_no_more_until_it_is_told_so(site: Site, kind: str) -> None:
    job = site.post(quick_flow)
    site.start(kind)
    assert job.wait(30)
    board = site.board.board
    tell(site, quiet=True)
    jobs = [site.post(quick_flow) for _ in range(3)]
    assert [reason.kind for reason in why(board, board.get(jobs[0].uuid))] == ["quiet"]
    assert site.board.claim_next("conductor") is None
    with pytest.raises(exceptions.UnclaimableJob, match="operator"):
        site.board.claim(jobs[0], "conductor")
    assert [job.state for job in jobs] == [states.UNCLAIMED] * 3
    tell(site, quiet=False)
    assert all(job.wait(30) for job in jobs)
    tell(site, quiet=True)
    site.conductor.stop()
    assert site.conductor.wait(30)
    site.start(kind)
    assert site.post(quick_flow).wait(30), "who begins anew is not quiet"


def tell(site: Site, *, quiet: bool) -> None:
    set_quiet(site.board.board, ["conductor"], quiet)
    shown = site.board.conductor("conductor")
    shown.heartbeat.register_again()
    assert eventually(lambda: shown.is_quiet == quiet)
    assert eventually(lambda: next(iter(site.board.board.entities())).metadata["quiet"] == quiet)
