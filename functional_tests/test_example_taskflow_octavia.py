"""The drivers for Octavia: its options, its persistence's fixed keys, and TaskFlow's own conductor, on real servers."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from oslo_utils import uuidutils
from servers.base import HOST
from servers.etcd_servers import EtcdServer
from servers.redis_servers import RedisServer
from servers.zookeeper_servers import ZooKeeperServer
from taskflow import engines, task
from taskflow.conductors.backends import impl_blocking
from taskflow.patterns import linear_flow
from taskflow.persistence import backends as persistences
from taskflow.persistence import models

from jobboard.testing import eventually

NAMESPACE = "octavia_jobboard"
#: Octavia's defaults.
OPTIONS = {
    "jobboard_backend_username": None, "jobboard_backend_password": None, "jobboard_backend_namespace": NAMESPACE,
    "jobboard_redis_backend_db": 0, "jobboard_redis_sentinel": None, "jobboard_etcd_timeout": None,
    "jobboard_etcd_api_path": None, "jobboard_expiration_time": 30,
    "jobboard_redis_backend_ssl_options": {
        "ssl": False, "ssl_keyfile": None, "ssl_certfile": None, "ssl_ca_certs": None, "ssl_cert_reqs": "required",
    },
    "jobboard_zookeeper_ssl_options": {
        "use_ssl": False, "keyfile": None, "keyfile_password": None, "certfile": None, "verify_certs": True,
    },
    "jobboard_etcd_ssl_options": {"use_ssl": False, "ca_cert": None, "cert_key": None, "cert_cert": None},
}  # fmt: skip
#: What Octavia's persistence driver gives beside the connection, whatever that is.
FIXED_KEYS = {"max_pool_size": 10, "max_overflow": 20, "pool_timeout": 10, "idle_timeout": 3600, "max_retries": -1}
CONNECTIONS = {
    "Redis": "jobboard+redis://{host}:{port}/0?namespace=octavia_jobboard&keep_logbooks=false",
    "Etcd": "jobboard+etcd://{host}:{port}?namespace=octavia_jobboard&keep_logbooks=false",
    "Zookeeper": "jobboard+zookeeper://{host}:{port}/octavia_jobboard?keep_logbooks=false",
}
SERVERS = {"Redis": RedisServer, "Etcd": EtcdServer, "Zookeeper": ZooKeeperServer}

made: list[int] = []


class Create(task.Task):  # type: ignore[misc]
    def execute(self, load_balancer: int) -> None:
        made.append(load_balancer)


def create_flow() -> Any:
    return linear_flow.Flow("create").add(Create())


@pytest.fixture(params=SERVERS)
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """One driver, with its persistence's configuration, in an Octavia that has no more than its options."""
    with SERVERS[request.param]() as server:
        options = {**OPTIONS, "jobboard_backend_hosts": [HOST], "jobboard_backend_port": server.port}
        octavia: Any = ModuleType("octavia.controller.worker.v2.taskflow_jobboard_driver")
        octavia.CONF = SimpleNamespace(task_flow=SimpleNamespace(**options))
        octavia.JobboardTaskFlowDriver = type("JobboardTaskFlowDriver", (), {})
        monkeypatch.setitem(sys.modules, octavia.__name__, octavia)
        monkeypatch.delitem(sys.modules, "taskflow_octavia.board_driver", raising=False)
        drivers = importlib.import_module("taskflow_octavia.board_driver")
        connection = CONNECTIONS[request.param].format(host=HOST, port=server.port)
        yield getattr(drivers, f"{request.param}TaskFlowDriver")({"connection": connection, **FIXED_KEYS})


def test_flows_run_on_the_board_as_octavia_runs_them(driver: Any) -> None:
    made.clear()
    for load_balancer in (1, 2, 3):
        post(driver, load_balancer)
    with closing(persistences.fetch(driver.persistence_driver)) as persistence, driver.job_board(persistence) as board:
        # What Octavia does where TaskFlow's claims have no end.
        board.claim = functools.partial(board.claim, expiry=OPTIONS["jobboard_expiration_time"])
        conductor = impl_blocking.BlockingConductor("controller", board, persistence=persistence, engine="parallel")
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(conductor.run)
            try:
                eventually(lambda: board.board.job_count == 0)
            finally:
                conductor.stop()
            running.result(30)
        assert sorted(made) == [1, 2, 3]
        assert [job.record.state for job in board.board.trashed()] == []


def post(driver: Any, load_balancer: int) -> None:
    """As Octavia's ``run_poster``."""
    with closing(persistences.fetch(driver.persistence_driver)) as persistence, driver.job_board(persistence) as board:
        uuid = uuidutils.generate_uuid()
        name = f"create_flow-{uuid}"
        book, detail = models.LogBook(name), models.FlowDetail(name, uuid)
        book.add(detail)
        persistence.get_connection().save_logbook(book)
        engines.save_factory_details(detail, create_flow, (), {}, backend=persistence)
        board.post(name, book=book, details={"store": {"load_balancer": load_balancer}})
