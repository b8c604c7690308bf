"""A Galera cluster of three nodes: boards on any of them see the same, and go on on another one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harnesses.busy_board import goes_on
from harnesses.deployments import FurtherContract
from harnesses.fixtures import a_server
from harnesses.sql_harness import MysqlHarness
from servers.base import HOST
from servers.galera_servers import GaleraCluster, GaleraNode
from servers.proxy import Proxy

from jobboard import BoardUnavailable, fetch
from jobboard.testing import Harness, eventually

pytestmark = pytest.mark.turn_of("Galera")

cluster = a_server(GaleraCluster)


class TestGalera(FurtherContract):
    executed_cases = FurtherContract.all_cases

    @pytest.fixture
    def harness(self, cluster: GaleraCluster) -> Iterator[Harness]:
        with MysqlHarness(cluster.uri) as harness:
            yield harness


def test_what_was_posted_on_one_node_is_there_on_the_others(cluster: GaleraCluster) -> None:
    first, second, _ = cluster.nodes
    with fetch("causal", first.uri) as producer, fetch("causal", second.uri) as reader:
        for number in range(200):
            job = producer.post("resize", {"n": number})
            assert reader.get(job.uuid) == job


def test_a_host_that_does_not_answer_takes_its_share_of_the_time(cluster: GaleraCluster) -> None:
    with Proxy((HOST, cluster.nodes[0].port)) as proxy:
        proxy.silence()
        board = fetch("silent", f"mysql://root@{HOST}:{proxy.port},{HOST}:{cluster.nodes[1].port}/jobs")
        begin = time.monotonic()
        board.connect(4.0)
        assert time.monotonic() - begin < 4.0
        board.close()
        board = fetch("silent", f"mysql://root@{HOST}:{proxy.port},{HOST}:{proxy.port}/jobs")
        begin = time.monotonic()
        with pytest.raises(BoardUnavailable):
            board.connect(2.0)
        assert time.monotonic() - begin < 4.0


def _isolate(node: GaleraNode, value: int) -> None:
    with node.client(None) as client, client.cursor() as cursor:
        cursor.execute(f"SET GLOBAL wsrep_provider_options = 'gmcast.isolate={value}'")


def test_a_node_that_is_cut_off_is_left_for_another_one(cluster: GaleraCluster) -> None:
    first = cluster.nodes[0]
    with fetch("cut", cluster.uri) as board:
        job = board.post("resize")
        _isolate(first, 1)
        try:
            eventually(lambda: first.status("wsrep_ready") == "OFF", within=30)
            with pytest.raises(BoardUnavailable, match="not ready"):
                fetch("cut", first.uri).connect(2.0)
            assert [board.post("resize").name, board.job_count] == ["resize", 2]
            [claimed] = board.claim_next("alice")
            assert claimed == job
        finally:
            _isolate(first, 0)
            eventually(first.answers, within=30)
    with fetch("cut", first.uri) as board:
        assert board.job_count == 2


def test_a_node_that_is_killed_under_load_loses_and_doubles_nothing_and_comes_back(
    cluster: GaleraCluster, tmp_path: Path
) -> None:
    first = cluster.nodes[0]
    goes_on(first.kill, cluster.uri, tmp_path)
    with fetch("back", cluster.uri) as board:
        job = board.post("resize")
        first.start()
        cluster.until_whole()
        with fetch("back", first.uri) as returned:
            assert returned.claim_next("alice") == [job]
            returned.consume(job, "alice", "done")
        assert board.get(job.uuid).result == "done"
