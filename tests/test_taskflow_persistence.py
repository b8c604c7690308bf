"""TaskFlow's persistence in logbooks: what its own tests (functional_tests/test_taskflow_suites.py) don't ask."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from taskflow import engines, exceptions, states, task
from taskflow.jobs import backends as boards
from taskflow.patterns import linear_flow
from taskflow.persistence import backends, models

from jobboard import LogBook


def conf_of(namespace: str) -> dict[str, Any]:
    return {"uri": "memory://", "namespace": namespace}


class Site:
    """A board and two persistences, as of two processes."""

    def __init__(self) -> None:
        conf = conf_of(uuid.uuid4().hex)
        self.conf = conf
        self.persistence, self.other = (backends.fetch({"connection": "jobboard", **conf}) for _ in range(2))
        self.board = boards.fetch("test", {"board": "jobboard", **conf}, persistence=self.persistence)
        self.board.connect()

    def post(self) -> tuple[Any, Any, Any]:
        """Post a job with a logbook of one flow; returns the job, the book and the flow detail."""
        book = models.LogBook("book")
        flow = models.FlowDetail("flow", str(uuid.uuid4()))
        book.add(flow)
        self.persistence.get_connection().save_logbook(book)
        return self.board.post("job", book=book, details={"flow_uuid": flow.uuid}), book, flow

    def close(self) -> None:
        for each in (self.persistence, self.other, self.board):
            each.close()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


RAN: list[str] = []


class Step(task.Task):  # type: ignore[misc]
    def __init__(self, name: str, then: Any = None) -> None:
        super().__init__(name, provides=name)
        self.then = then

    def execute(self) -> dict[str, Any]:
        RAN.append(self.name)
        if self.then is not None:
            self.then()
        return {"step": self.name, "when": (1, 2)}


def engine_for(flow: Any, detail: Any, persistence: Any) -> Any:
    return engines.load(flow, flow_detail=detail, backend=persistence)


def test_an_engine_whose_claim_is_lost_is_stopped_at_its_next_change(site: Site) -> None:
    RAN.clear()
    job, book, _ = site.post()
    site.board.claim(job, "first")

    def lose() -> None:
        site.board.board.release(job.uuid, reason="test")

    flow = linear_flow.Flow("flow").add(Step("one"), Step("two", lose), Step("three"))
    engine = engine_for(flow, next(iter(job.book)), site.persistence)
    with pytest.raises(exceptions.ExecutionFailure, match="does not hold any more"):
        engine.run()
    assert RAN == ["one", "two"]
    [seen] = site.other.get_connection().get_logbook(book.uuid)
    assert {atom.name: atom.state for atom in seen} == {
        "one": states.SUCCESS,
        "two": states.RUNNING,
        "three": states.PENDING,
    }
    # A later owner resumes what was begun.
    site.board.claim(job, "second")
    flow = linear_flow.Flow("flow").add(Step("one"), Step("two"), Step("three"))
    engine_for(flow, seen, site.persistence).run()
    site.board.consume(job, "second")
    assert RAN == ["one", "two", "two", "three"]
    [seen] = site.other.get_connection().get_logbook(book.uuid)
    assert seen.state == states.SUCCESS
    assert {atom.results[-1]["step"] if isinstance(atom.results, list) else atom.results["step"] for atom in seen} == {
        "one",
        "two",
        "three",
    }


def test_a_persistence_elsewhere_than_the_board_can_not_fence_and_says_so(site: Site) -> None:
    elsewhere = backends.fetch({"connection": "jobboard", **conf_of(uuid.uuid4().hex)})
    job, book, flow = site.post()
    elsewhere.get_connection().save_logbook(book)
    site.board.claim(job, "a")
    flow.state = states.RUNNING
    with pytest.raises(exceptions.StorageFailure, match="same uri and namespace"):
        elsewhere.get_connection().update_flow_details(flow)
    site.board.abandon(job, "a")
    elsewhere.get_connection().update_flow_details(flow)
    elsewhere.close()


def test_changes_of_two_processes_are_merged(site: Site) -> None:
    book = models.LogBook("book")
    for name in ("a", "b"):
        book.add(models.FlowDetail(name, str(uuid.uuid4())))
    one, two = site.persistence.get_connection(), site.other.get_connection()
    one.save_logbook(book)
    first, second = two.get_logbook(book.uuid)
    for connection, flow in ((one, first), (two, second), (one, first)):
        flow.meta = {**(flow.meta or {}), flow.name: True}
        connection.update_flow_details(flow)
    assert [flow.meta for flow in one.get_logbook(book.uuid)] == [{"a": True}, {"b": True}]


def test_a_flow_with_many_tasks_is_saved_in_parts(site: Site) -> None:
    book = models.LogBook("large")
    flow = models.FlowDetail("flow", str(uuid.uuid4()))
    for number in range(250):
        flow.add(models.TaskDetail(f"task {number}", str(uuid.uuid4())))
    book.add(flow)
    site.persistence.get_connection().save_logbook(book)
    seen = site.other.get_connection().get_flow_details(flow.uuid)
    assert [atom.name for atom in seen] == [f"task {number}" for number in range(250)]


def test_an_engine_without_a_logbook_gets_one_and_only_taskflows_books_are_cleared(site: Site) -> None:
    site.persistence.get_connection()
    site.persistence.board.save_book(foreign := LogBook("not of TaskFlow"))
    engine = engines.load(linear_flow.Flow("loose").add(Step("one")), backend=site.persistence)
    engine.run()
    connection = site.other.get_connection()
    assert connection.get_flow_details(engine.storage.flow_uuid).state == states.SUCCESS
    assert [len(book) for book in connection.get_logbooks()] == [1]
    connection.clear_all()
    with pytest.raises(exceptions.NotFound):
        connection.get_flow_details(engine.storage.flow_uuid)
    assert site.persistence.board.load_book(foreign.uuid).name == "not of TaskFlow"


def test_a_logbook_goes_with_its_job_if_it_is_not_kept() -> None:
    conf = {**conf_of(uuid.uuid4().hex), "retention": 0}
    persistence = backends.fetch({"connection": "jobboard", "keep_logbooks": False, **conf})
    board = boards.fetch("test", {"board": "jobboard", **conf}, persistence=persistence)
    board.connect()
    book = models.LogBook("book")
    book.add(models.FlowDetail("flow", str(uuid.uuid4())))
    persistence.get_connection().save_logbook(book)
    job = board.post("job", book=book)
    board.claim(job, "a")
    engine_for(linear_flow.Flow("flow").add(Step("one")), next(iter(job.book)), persistence).run()
    assert persistence.get_connection().get_logbook(book.uuid).name == "book"
    board.consume(job, "a")
    with pytest.raises(exceptions.NotFound):
        persistence.get_connection().get_logbook(book.uuid)
    persistence.close()
    board.close()
