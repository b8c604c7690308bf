"""Posters name the factory of a flow: a conductor calls only those of its configuration."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.flow_factories import CALLED, borrowed, good_flow
from taskflow.conductors import backends as conductors
from taskflow.jobs import backends
from taskflow.persistence import models
from taskflow.persistence.backends import impl_memory
from taskflow.utils import persistence_utils

from jobboard import Conductor, Handlers, JobState, backend
from jobboard.taskflow import flow_handler
from jobboard.taskflow.factories import AllowedFactories

HERE = "helpers.flow_factories"
KINDS = pytest.mark.parametrize("kind", ["jobboard_blocking", "jobboard_nonblocking"])


class Site:
    def __init__(self) -> None:
        self.persistence = impl_memory.MemoryBackend()
        conf = {"board": "jobboard", "uri": "memory://", "namespace": f"tf-{uuid.uuid4().hex}"}
        self.board = backends.fetch("test", conf, persistence=self.persistence)
        self.board.connect()

    def post(self, factory: object, *arguments: object) -> Any:
        """As anybody can who may write to the board; with nothing of this process."""
        book, detail = persistence_utils.temporary_flow_detail(self.persistence)
        detail.meta = {"factory": factory if isinstance(factory, dict) else {"name": factory, "args": list(arguments)}}
        self.persistence.get_connection().update_flow_details(detail)
        return self.board.post("flow", book, details={"flow_uuid": detail.uuid})

    def run(self, kind: str, dispatches: int = 1, **options: Any) -> None:
        conductor = conductors.fetch(kind, "conductor", self.board, persistence=self.persistence, **options)
        thread = threading.Thread(target=conductor.run, args=(dispatches,), daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    def record(self, job: Any) -> Any:
        return self.board.board.get(job.uuid).record


@pytest.fixture
def site() -> Iterator[Site]:
    CALLED.clear()
    site = Site()
    yield site
    site.board.close()


@KINDS
def test_a_factory_that_is_not_named_is_not_called(site: Site, kind: str) -> None:
    bad, good, last = (
        site.post(f"{HERE}.reckless", "rm"),
        site.post(f"{HERE}.good_flow"),
        site.post("os.system", "true"),
    )
    site.run(kind, 3, factories=[f"{HERE}.good_flow"])
    assert CALLED == ["good_flow", "step"]
    assert site.record(good).state is JobState.COMPLETE
    for job, name in ((bad, f"{HERE}.reckless"), (last, "os.system")):
        record = site.record(job)
        assert (record.state, record.reason) == (
            JobState.TRASHED,
            f"the factory {name!r} is not among the factories= of this conductor",
        )


@KINDS
def test_an_empty_list_lets_nothing_run(site: Site, kind: str) -> None:
    job = site.post(f"{HERE}.good_flow")
    site.run(kind, factories=[])
    assert (CALLED, site.record(job).state) == ([], JobState.TRASHED)


@KINDS
def test_a_conductor_without_a_list_says_so_once_when_it_starts(
    site: Site, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        site.post(f"{HERE}.good_flow")
    with caplog.at_level(logging.WARNING, "jobboard.taskflow"):
        site.run(kind, 2)
        assert [record.message for record in caplog.records if "factories=" in record.message] == [
            "conductor conductor calls any function that a job of its board names: give it factories=[...]"
        ]
        caplog.clear()
        site.post(f"{HERE}.good_flow")
        site.run(kind, factories=[HERE])
        assert not [record for record in caplog.records if "factories=" in record.message]


@pytest.mark.parametrize(
    "name",
    [
        # A prefix ends at a dot.
        f"{HERE}.good_flow_that_is_not_named",
        f"{HERE}x.good_flow",
        HERE.partition(".")[0],
        f"x.{HERE}.good_flow",
        f"{HERE}.good_flow ",
        f"{HERE}.good_flow\n",
        f"{HERE.upper()}.good_flow",
        "os.system",
        ".good_flow",
        "good_flow",
        "",
        None,
        7,
        [f"{HERE}.good_flow"],
    ],
)
def test_what_does_not_match_a_name(name: object) -> None:
    allowed = AllowedFactories([f"{HERE}.good_flow", "helpers.console"])
    assert (
        allowed.refusal({"factory": {"name": name}})
        == f"the factory {name!r} is not among the factories= of this conductor"
    )


@pytest.mark.parametrize(
    "meta", [None, {}, [], "text", {"factory": None}, {"factory": []}, {"factory": {}}, {"factory": "os.system"}]
)
def test_a_flow_without_a_factory_is_left_to_taskflow(meta: object) -> None:
    assert AllowedFactories([HERE]).refusal(meta) is None


@pytest.mark.parametrize("entry", [f"{HERE}.good_flow", HERE, HERE.partition(".")[0]])
def test_a_name_and_every_prefix_of_it_match(entry: str) -> None:
    assert AllowedFactories(["other", entry, "another"]).refusal({"factory": {"name": f"{HERE}.good_flow"}}) is None


def test_a_prefix_allows_what_is_defined_below_it_and_not_what_is_imported_there() -> None:
    """Else ``from subprocess import run`` in a module of flows would let jobs call it."""
    assert borrowed.__module__ != HERE
    meta = {"factory": {"name": f"{HERE}.borrowed"}}
    assert AllowedFactories([HERE]).refusal(meta) == (
        f"the factory '{HERE}.borrowed' is '{borrowed.__module__}.echo', which is not among the factories= of this "
        "conductor"
    )
    for entry in (f"{HERE}.borrowed", "helpers"):
        assert AllowedFactories([entry]).refusal(meta) is None


@pytest.mark.parametrize("name", [f"{HERE}.missing", f"{HERE}.missing.flow"])
def test_a_factory_that_is_not_there_is_refused(name: str) -> None:
    refusal = AllowedFactories([HERE]).refusal({"factory": {"name": name}})
    assert refusal is not None
    assert refusal.startswith(f"the factory {name!r} can't be imported: ")


@KINDS
@pytest.mark.parametrize("factories", ["tests.flows", b"tests", 7])
def test_factories_is_a_list(site: Site, kind: str, factories: object) -> None:
    with pytest.raises(TypeError, match="factories must be a list of names"):
        site.run(kind, factories=factories)


@KINDS
@pytest.mark.parametrize("entry", ["", ".", "tests.", ".tests", "tests..flows", "tests.*", "tests flows", "a:b"])
def test_an_entry_is_a_dotted_name(site: Site, kind: str, entry: str) -> None:
    with pytest.raises(ValueError, match="is no dotted name such as 'shop.flows'"):
        site.run(kind, factories=["tests", entry])


def test_an_entry_is_text() -> None:
    with pytest.raises(TypeError, match="factories must be a list of names"):
        AllowedFactories([good_flow])  # type: ignore[list-item]


def test_a_handler_calls_its_own_factory_whatever_a_logbook_of_its_job_names() -> None:
    """Nothing of ``flow_handler`` reads a factory's name from the board."""
    from jobboard.taskflow import LogBookBackend

    CALLED.clear()
    place = f"memory://{uuid.uuid4().hex}"
    handlers = Handlers()
    handlers.add("flow", flow_handler(good_flow))
    with backend("flows", place) as board:
        wanted = uuid.uuid4().hex
        book = models.LogBook("flow", str(uuid.UUID(wanted)))
        detail = models.FlowDetail("flow", book.uuid)
        detail.meta = {"factory": {"name": f"{HERE}.reckless", "args": ["rm"]}}
        book.add(detail)
        with_books = LogBookBackend({"uri": place, "namespace": "flows"})
        with_books.get_connection().save_logbook(book)
        job = board.post("flow", uuid=book.uuid)
        conductor = Conductor("test", board, handlers)
        conductor.start()
        job.get_result(timeout=30)
        conductor.stop()
        with_books.close()
    assert CALLED == ["good_flow", "step"]
