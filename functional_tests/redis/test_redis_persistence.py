"""What the server keeps on disk is asked, and who looks at a board is told if that is nothing."""

from __future__ import annotations

import pytest
import redis
from servers.redis_servers import RedisCluster, RedisServer

from jobboard import JobBoard, fetch
from jobboard.board import client_of
from jobboard.operate.doctor import examine
from jobboard.operate.overview import overview
from jobboard.operate.status import status
from jobboard.operate.verdict import Finding, findings


def told(board: JobBoard) -> list[Finding]:
    return [finding for finding in findings(overview(board)) if finding.kind == "not_durable"]


def kept(uri: str) -> tuple[bool | None, str]:
    with fetch("x", uri) as board:
        found = client_of(board).backend.persistence()
        return found.kept, found.text


def test_who_looks_is_told_what_to_do_until_it_is_done() -> None:
    with RedisServer() as server, fetch("x", server.uri) as board, server.client() as client:
        [finding] = told(board)
        assert f":{server.port} keeps nothing on disk" in finding.text
        assert status(board)["verdict"] == "ATTENTION"
        diagnoses = {each.subject: each for each in examine(fetch("x", server.uri))}
        assert "CONFIG SET appendonly yes" in diagnoses["not_durable"].text
        client.execute_command(*finding.text.partition("To keep them: ")[2].partition(",")[0].split())
        assert told(board) == []
        assert status(board)["verdict"] == "WELL"


def test_a_policy_that_evicts_jobs_is_a_finding_with_what_it_has_evicted() -> None:
    settings = {"appendonly": "yes", "maxmemory": "16mb", "maxmemory-policy": "allkeys-lru"}
    with RedisServer(settings) as server, server.client() as client:
        uri = f"{server.uri}?allow_eviction=true"
        with fetch("x", uri) as board:
            [finding] = told(board)
            assert "maxmemory-policy allkeys-lru" in finding.text
            assert "evicted" not in finding.text
            for number in range(300):
                client.set(f"others:{number}", b"x" * 100_000)
            evicted = client.info("stats")["evicted_keys"]
            assert evicted > 0
            assert f"evicted {evicted} keys" in told(board)[0].text
        diagnoses = {each.subject: each for each in examine(fetch("x", uri))}
        command, _, _ = diagnoses["not_durable"].text.partition("To keep them: ")[2].partition(",")
        client.config_set("maxmemory", "0")
        client.execute_command("ACL", "SETUSER", "some", "reset", "on", ">x", "~*", "&*", "+@all", "-config")
        assert "allkeys-lru" in kept(f"{server.uri_of('some', 'x')}?allow_eviction=true")[1]
        client.execute_command(*command.split())
        assert kept(uri)[0] is True


def test_a_policy_that_evicts_no_jobs_is_no_finding() -> None:
    with RedisServer({"appendonly": "yes", "maxmemory-policy": "volatile-lru"}) as server:
        assert kept(f"{server.uri}?allow_eviction=true")[0] is True


def test_what_a_crash_costs_is_said() -> None:
    with RedisServer({"save": "3600 1"}) as server, server.client() as client:
        assert kept(server.uri) == (True, "a crash of the server loses all since its last snapshot (appendonly no)")
        client.config_set("appendonly", "yes")
        assert "about the last second" in kept(server.uri)[1]
        client.config_set("appendfsync", "always")
        assert kept(server.uri) == (True, "")


@pytest.mark.parametrize(
    ("rules", "is_appending", "expected"),
    [(["+@all"], False, False), (["+@all", "-config"], False, None), (["+@all", "-config"], True, True),
     (["+@all", "-config", "-info"], True, None)],
)  # fmt: skip
def test_a_user_with_fewer_rights_learns_what_it_may(
    rules: list[str], is_appending: bool, expected: bool | None
) -> None:
    with RedisServer({"appendonly": "yes" if is_appending else "no"}) as server, server.client() as client:
        client.execute_command("ACL", "SETUSER", "some", "reset", "on", ">x", "~*", "&*", *rules)
        uri = server.uri_of("some", "x")
        found, text = kept(uri)
        assert (found, "does not tell this user" in text) == (expected, expected is None)
        with fetch("x", uri) as board:
            assert [finding.kind for finding in told(board)] == ["not_durable"] * (expected is False)
        [diagnosis] = [each for each in examine(fetch("x", uri)) if each.subject in ("durable", "not_durable")]
        assert diagnosis.well is (True if expected else None)


def test_a_server_without_the_command_is_used_and_does_not_tell() -> None:
    with RedisServer({"rename-command": "CONFIG X"}) as server:
        assert kept(server.uri)[0] is None


def test_a_log_that_the_server_would_not_load_again_is_a_finding() -> None:
    with RedisServer({"appendonly": "yes", "appendfsync": "always"}) as server, server.client() as client:
        client.execute_command("ACL", "SETUSER", "some", "reset", "on", ">x", "~*", "&*", "+@all")
        uri = server.uri_of("some", "x")
        assert kept(uri) == (True, "")
        client.execute_command("ACL", "SETUSER", "default", "off", "resetkeys", "nocommands")
        with server.client(username="some", password="x") as operator, fetch("x", uri) as board:
            [finding] = told(board)
            command, _, rest = finding.text.partition("To keep them: ")[2].partition(",")
            assert rest
            operator.execute_command(*command.split())
            assert kept(uri) == (True, "")
            board.post("resize")
            operator.execute_command("DEBUG", "LOADAOF")
            assert board.job_count == 1


def test_of_a_cluster_the_node_of_the_board_is_asked() -> None:
    with RedisCluster() as cluster:
        assert kept(cluster.uri)[0] is False
        for node in cluster.nodes:
            with node.client() as client:
                client.config_set("appendonly", "yes")
        assert kept(cluster.uri)[0] is True


def test_a_look_costs_eight_requests_and_one_more_without_the_right() -> None:
    with RedisServer({"save": "3600 1"}) as server, server.client() as client:
        client.execute_command("ACL", "SETUSER", "some", "reset", "on", ">x", "~*", "&*", "+@all", "-config")
        assert [_requests(client, uri) for uri in (server.uri, server.uri_of("some", "x"))] == [8, 9]


def _requests(client: redis.Redis, uri: str) -> int:
    """Return how many commands one look takes, those that scripts call aside, as the server is told by its clients."""
    with fetch("x", uri) as board:
        overview(board)
        before = client.info("commandstats")
        overview(board)
        after = client.info("commandstats")
    names = ("evalsha", "info", "config|get")
    number = 0
    for name in names:
        for what in ("calls", "rejected_calls"):
            key = f"cmdstat_{name}"
            number += after.get(key, {}).get(what, 0) - before.get(key, {}).get(what, 0)
    # The look at the numbers is one.
    return number - 1
