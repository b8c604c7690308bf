"""TaskFlow's own test classes, from the installed package, over a board of ours."""

from __future__ import annotations

import os
import unittest
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

from futurist._thread import ThreadWorker

# Without this, the modules look for servers on the default ports while they are imported.
with mock.patch.dict(os.environ, {"TAKSFLOW_TEST_URL": "zookeeper://none"}):
    from taskflow.tests.unit import test_conductors
    from taskflow.tests.unit.jobs import test_redis_job, test_zk_job
    from taskflow.tests.unit.persistence import base as persistence_base

from taskflow.conductors import backends as conductor_backends
from taskflow.jobs import backends as job_backends
from taskflow.persistence import backends as persistence_backends
from taskflow.persistence.backends import impl_memory

#: Cases of TaskFlow's classes that don't apply, and why; they are skipped, and counted.
NEEDS_ITS_CLIENT = "looks into TaskFlow's own keys or znodes, or patches its client"
NOT_APPLICABLE = {
    "test_posting_no_post": NEEDS_ITS_CLIENT,
    "test_posting_dates": NEEDS_ITS_CLIENT,
    "test_posting_owner_lost": NEEDS_ITS_CLIENT,
    "test_posting_state_lock_lost": NEEDS_ITS_CLIENT,
    "test_trashing_claimed_job": NEEDS_ITS_CLIENT,
    "test_posting_received_raw": NEEDS_ITS_CLIENT,
    "test_register_entity": NEEDS_ITS_CLIENT,
}
MAKES_CLIENT = "tests the client that TaskFlow makes; tests/test_taskflow_configuration.py tests ours"
FETCHES = "patches the poll that our conductors don't do; tests/test_taskflow_conductors.py has the same for them"
SESSIONS = {"test_posting_claim_expiry": "claims on ZooKeeper end with a session, not by time"}


def stubs(names: Mapping[str, str]) -> dict[str, Any]:
    return {name: unittest.skip(reason)(lambda self: None) for name, reason in names.items()}


class Cases(test_redis_job.RedisJobboardTest):  # type: ignore[misc]
    """Boards, conductors and persistence for TaskFlow's cases; see :func:`suite`."""

    __test__ = False
    __unittest_skip__ = False
    make_server: Callable[[], Any]
    server: Any
    kind: str
    conductor_kwargs: dict[str, Any]
    _persistence: Any = None

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        # The end of an executor waits until its idle threads look around, which they do once a second.
        cls.enterClassContext(mock.patch.object(ThreadWorker, "MAX_IDLE_FOR", 0.05))
        cls.server = cls.make_server().start()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.stop()
        super().tearDownClass()

    def create_board(self, persistence: Any = None) -> tuple[Any, Any]:
        conf = {"board": "jobboard", "uri": self.server.uri, "namespace": f"tf-{uuid.uuid4().hex}"}
        board = job_backends.fetch("test-board", conf, persistence=persistence)
        self.addCleanup(board.close)
        return board, board

    def _get_connection(self) -> Any:
        if self._persistence is None:
            conf = {"connection": "jobboard", "uri": self.server.uri, "namespace": f"tf-{uuid.uuid4().hex}"}
            self._persistence = persistence_backends.fetch(conf)
            self.addCleanup(self._persistence.close)
        return self._persistence.get_connection()

    def make_components(self) -> Any:
        persistence = impl_memory.MemoryBackend()
        _, board = self.create_board(persistence)
        options = {**self.conductor_kwargs, "persistence": persistence}
        conductor = conductor_backends.fetch(self.kind, "testing", board, **options)
        return test_conductors.ComponentBundle(board, persistence, conductor)


def suite(make_server: Callable[[], Any], conductors: Sequence[str], sessions: bool = False) -> type:
    """Return TaskFlow's cases of boards, conductors and persistence, over the boards of one server.

    :param conductors: of :data:`SCENARIOS`, those in which TaskFlow's ManyConductorTest runs.
    :param sessions: whether claims end with a session.
    """
    of_zookeeper = {**vars(test_zk_job.ZookeeperBoardTestMixin), **vars(test_zk_job.ZookeeperJobboardTest)}
    cases = {name: case for name, case in of_zookeeper.items() if name.startswith("test_")}
    makes_client = [name for name in vars(test_redis_job.RedisJobboardTest) if name.startswith("test__make_client")]
    cases |= stubs({**NOT_APPLICABLE, **dict.fromkeys(makes_client, MAKES_CLIENT), **(SESSIONS if sessions else {})})
    for name, case in vars(persistence_base.PersistenceTestMixin).items():
        if name.startswith("test_"):
            cases[f"{name}__persistence"] = case
    for scenario in conductors:
        for name, case in vars(test_conductors.ManyConductorTest).items():
            if name.startswith("test_"):
                cases[f"{name}__{scenario}"] = in_scenario(case, scenario)
        if scenario.startswith("jobboard"):
            cases |= stubs({f"test_run_survives_transient_jobboard_failure__{scenario}": FETCHES})
    return type("Suite", (Cases,), {**cases, "make_server": staticmethod(make_server), "__test__": True})


def in_scenario(case: Callable[[Any], None], scenario: str) -> Callable[[Any], None]:
    def run(self: Any) -> None:
        for name, value in SCENARIOS[scenario].items():
            setattr(self, name, value)
        case(self)

    return run


#: TaskFlow's scenarios of conductors, and the same for ours.
SCENARIOS: dict[str, dict[str, Any]] = {
    **dict(test_conductors.ManyConductorTest.scenarios),
    **{
        kind: {"kind": kind, "conductor_kwargs": {"wait_timeout": 0.1}}
        for kind in ("jobboard_blocking", "jobboard_nonblocking")
    },
}
