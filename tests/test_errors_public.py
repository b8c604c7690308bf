"""Every error that can be raised has a public name: all exceptions of all modules are looked through."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

import pytest
from helpers.typed import Order

import jobboard
import jobboard.errors
import jobboard.taskflow
from jobboard import Handlers, InvalidDetails, JobBoardError, backend
from jobboard.testing import run_due

#: Signals within one package, which catches them itself, and the module that does so.
INTERNAL = {
    "client.graph.GraphRefused": "client.graph_staging, board.producing, board.following",
    "client.graph.UnfinishedGraph": "client.graphs",
    "codec.NewerFormat": "what it is raised for is left to newer clients (board.handles, schedules.firing)",
    "backends.etcd.errors.EndpointFailed": "http_client",
    "backends.etcd.errors.LeaseExists": "leases",
    "backends.etcd.errors.LeaseNotFound": "leases",
    "backends.etcd.errors.LoginExpired": "http_client",
    "backends.etcd.errors.NoReply": "http_client",
    "backends.etcd.errors.RefusedForNow": "http_client",
    "backends.etcd.errors.Unreachable": "http_client",
    "backends.loading.UnknownOption": "taskflow.configuration; users catch a ValueError",
    "backends.sql.batch.BatchRefused": "posting, schedules, ends_with_posts",
    "backends.sql.transaction.LongPath": "transaction",
    "backends.sql.transaction.Undone": "transaction",
    "backends.zookeeper.errors.Conflict": "read_modify_write",
    "conductor.outcome.Suspension": "calling: it ends the run of a handler that sleeps or waits",
    "conductor.typed_details.Misfit": "typed_details, encoded_details",
    "contrib.django.models.Job.DoesNotExist": "Django makes it for every model; this one has no rows to ask for",
    "contrib.django.models.Job.MultipleObjectsReturned": "likewise",
    "apscheduler.pickled_names.Refused": "apscheduler",
    "taskflow.shelf._Stale": "taskflow.shelf",
}


def test_every_error_that_a_user_can_catch_has_a_public_name() -> None:
    import_all()
    public = {getattr(package, name) for package in (jobboard, jobboard.taskflow) for name in package.__all__}
    public |= {kind for kind in vars(jobboard.errors).values() if isinstance(kind, type)}
    private = {kind for kind in exceptions() if kind not in public}
    assert {name_of(kind) for kind in private} - set(INTERNAL) == set()
    assert [name_of(kind) for kind in private if issubclass(kind, JobBoardError)] == []


def test_details_that_do_not_fit_have_a_public_name_in_tests_of_handlers() -> None:
    handlers = Handlers()

    @handlers.handler("pack")
    def pack(order: Order) -> None:
        raise AssertionError("never called")

    with backend("errors", "memory://errors") as board:
        board.post("pack", details={"number": "none"})
        with pytest.raises(InvalidDetails, match="details.lines is missing"):
            run_due(board, handlers)


def import_all() -> None:
    for module in pkgutil.walk_packages(jobboard.__path__, "jobboard."):
        # Those of Django need a site's settings; they have no exceptions of their own.
        if not module.name.endswith("__main__") and not module.name.startswith("jobboard.contrib.django"):
            import_module(module.name)


def exceptions(base: type[BaseException] = BaseException) -> Iterator[type[BaseException]]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("jobboard.") and not kind.__module__.startswith("jobboard.testing."):
            yield kind
        yield from exceptions(kind)


def name_of(kind: type[BaseException]) -> str:
    return f"{kind.__module__.removeprefix('jobboard.')}.{kind.__qualname__}"
