"""A Redis server whose memory is full takes no more jobs, and lets go of those that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from harnesses.fixtures import a_server
from harnesses.redis_harness import ClusterHarness, RedisHarness, SentinelHarness
from servers.redis_servers import RedisCluster, RedisSentinel, RedisServer, plain_client

from jobboard import (
    BoardUnavailable,
    Conductor,
    Entity,
    Every,
    Handlers,
    JobBoard,
    JobState,
    LogBook,
    Posting,
    Schedule,
    fetch,
)
from jobboard.cli.app import run as jobboard
from jobboard.operate.doctor import examine
from jobboard.operate.overview import overview
from jobboard.operate.sampling import Sampler
from jobboard.operate.verdict import findings
from jobboard.testing import eventually

LONG = 600.0
LARGE = {"large": "x" * 20_000}
ROOM = 6_000_000
HOURLY = Schedule("hourly", Every(hours=1), "resize")

server = a_server(RedisServer)
cluster = a_server(RedisCluster)
sentinel = a_server(RedisSentinel)


class Memory:
    """Of all servers that may have the board."""

    def __init__(self, *ports: int) -> None:
        self._clients = [plain_client(port) for port in ports]

    def limit(self) -> None:
        for client in self._clients:
            client.config_set("maxmemory", int(client.info("memory")["used_memory"]) + ROOM)

    def free(self) -> None:
        for client in self._clients:
            client.config_set("maxmemory", "0")

    def close(self) -> None:
        self.free()
        for client in self._clients:
            client.close()


@pytest.fixture
def memory(server: RedisServer) -> Iterator[Memory]:
    memory = Memory(server.port)
    yield memory
    memory.close()


@pytest.fixture
def board(server: RedisServer, memory: Memory) -> Iterator[JobBoard]:
    with RedisHarness(server.uri) as harness:
        yield harness.board(retention=0)


def fill(board: JobBoard, memory: Memory) -> None:
    """Post until the server refuses, also a small job."""
    memory.limit()
    with pytest.raises(BoardUnavailable, match="out of memory"):
        for _ in range(100):
            board.post_many([Posting("resize", details=LARGE) for _ in range(20)])
    with pytest.raises(BoardUnavailable, match="maxmemory"):
        for _ in range(2000):
            board.post("resize")


def drain(board: JobBoard) -> int:
    """Let a conductor do all that there is."""
    done: list[str] = []
    handlers = Handlers()
    handlers.add("resize", lambda job: done.append(job.uuid))
    conductor = Conductor("drainer", board, handlers, concurrency=4)
    conductor.start()
    eventually(lambda: board.job_count == 0, within=60)
    conductor.stop()
    return len(done)


def test_a_full_server_is_drained_by_a_conductor_and_takes_jobs_again(board: JobBoard, memory: Memory) -> None:
    fill(board, memory)
    waiting = board.job_count
    assert waiting > 100
    assert drain(board) == waiting
    board.post_many([Posting("resize", details=LARGE) for _ in range(100)])
    assert (board.job_count, board.audit()) == (100, [])


@pytest.mark.parametrize("deployment", ["cluster", "sentinel"])
def test_it_is_so_in_every_deployment(deployment: str, request: pytest.FixtureRequest) -> None:
    deployed = request.getfixturevalue(deployment)
    if deployment == "cluster":
        harness: RedisHarness = ClusterHarness(deployed.uri)
        memory = Memory(*(node.port for node in deployed.nodes))
    else:
        harness, memory = SentinelHarness(deployed.uri), Memory(deployed.primary.port)
    with harness:
        board = harness.board(retention=0)
        fill(board, memory)
        for job in board.claim_next("alice", limit=50):
            board.consume(job, "alice")
        board.post("resize", details=LARGE)
    memory.close()


def claimed(board: JobBoard) -> Any:
    [job] = board.claim_next("alice", expiry=LONG)
    return job


#: What operators and owners do to a board that is full.
FREEING: dict[str, Callable[[JobBoard], object]] = {
    "claim": lambda board: board.claim(next(iter(board.iterjobs(only_unclaimed=True))), "alice", LONG),
    "consume": lambda board: board.consume(claimed(board), "alice", "done"),
    "abandon": lambda board: board.abandon(claimed(board), "alice", delay=60, reason="later"),
    "trash": lambda board: board.trash(claimed(board), "alice", reason="broken"),
    "trash and purge": lambda board: (board.trash(job := claimed(board), "alice"), board.purge(job.uuid)),
    "trash and restore": lambda board: (board.trash(job := claimed(board), "alice"), board.restore(job.uuid)),
    "cancel": lambda board: board.cancel(next(iter(board.iterjobs(only_unclaimed=True)))),
    "cancel by key": lambda board: board.cancel_by_key("report", "k"),
    "release": lambda board: board.release(claimed(board), reason="stuck"),
    "extend": lambda board: board.extend(claimed(board), "alice", LONG),
    "checkpoint": lambda board: board.checkpoint(claimed(board), "alice", {"page": 7}),
    "pause and resume": lambda board: (board.pause("resize"), board.resume("resize")),
    "tidy": lambda board: board._backend.maintenance.tidy(100),
    "audit": lambda board: board.audit(repair=True),
    "stop schedules": lambda board: (
        board.schedules.add(HOURLY, if_exists="keep"),
        board.schedules.pause("hourly"),
        board.schedules.remove("hourly"),
    ),
    "wait": lambda board: list(board.wait(0.1, {"nothing"})),
}


@pytest.fixture(scope="module")
def crowded() -> Iterator[RedisServer]:
    """A server that is far beyond its memory once it has a board."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module")
def full(crowded: RedisServer) -> Iterator[JobBoard]:
    with fetch("full", crowded.uri) as board, crowded.client() as client:
        board.post_many([Posting("resize", details=LARGE) for _ in range(60)])
        board.post("report", key="k")
        board.schedules.add(HOURLY)
        client.config_set("maxmemory", "1mb")
        yield board


@pytest.fixture(scope="module")
def newcomer(crowded: RedisServer, full: JobBoard) -> Iterator[JobBoard]:
    """Another client of that board, which connects while the memory is full, to a server that forgot the scripts."""
    with crowded.client() as client:
        client.script_flush()
    with fetch(full.name, crowded.uri) as board:
        yield board


@pytest.mark.parametrize("who", ["full", "newcomer"])
@pytest.mark.parametrize("what", FREEING)
def test_what_frees_memory_works_while_it_is_full(request: pytest.FixtureRequest, who: str, what: str) -> None:
    board = request.getfixturevalue(who)
    FREEING[what](board)
    assert board.audit() == []


#: What an operator types while the memory is full, each in a new client.
TYPED = [
    "stats", "ls", "why report:k", "entities", "trashed", "lanes", "check", "schedule ls", "limits",
    "trash --job-name a", "restore --job-name a", "trash --job-name b", "purge --job-name b", "run-now --job-name late",
    "pause", "resume", "cancel --job-name c",
]  # fmt: skip


def test_each_command_but_post_works_at_once_in_a_new_client(capsys: pytest.CaptureFixture[str]) -> None:
    with RedisServer() as server, fetch("typed", server.uri) as board, server.client() as client:
        for name in "abc":
            board.post_many([Posting(name, details=LARGE) for _ in range(3)])
        board.post("report", key="k")
        board.post("late", delay=LONG)
        client.config_set("maxmemory", "1mb")
        said = {}
        for line in [*TYPED, "post resize"]:
            bulk = ["--yes"] if "--job-name" in line else []
            code = jobboard(["--board", server.uri, "--name", "typed", *line.split(), *bulk])
            said[line] = (code, capsys.readouterr().err)
        refused = said.pop("post resize")
        assert {line: told for line, told in said.items() if told[0]} == {}
        assert (refused[0] > 0, "out of memory" in refused[1]) == (True, True)
        numbers = {name: (one.unclaimed, one.trashed) for name, one in board.stats().names.items()}
        assert numbers == {"a": (3, 0), "report": (1, 0), "late": (1, 0)}


def used_by(client: Any) -> int:
    """Return the memory in use, as this client's maxmemory counts it."""
    facts = client.info("memory")
    return int(facts["used_memory"]) - int(facts["mem_not_counted_for_evict"])


def test_who_looks_is_told_how_full_the_memory_is() -> None:
    with RedisServer() as server, fetch("filled", server.uri) as board, server.client() as client:

        def told() -> list[tuple[str, bool]]:
            diagnoses = [each for each in examine(fetch("filled", server.uri)) if "maxmemory" in each.text]
            found = [finding for finding in findings(overview(board)) if finding.kind == "short"]
            assert [each.well for each in diagnoses] == [False] * len(found)
            return [(finding.verdict.name, "takes no posts" in finding.text) for finding in found]

        board.post_many([Posting("resize", details=LARGE) for _ in range(100)])
        assert told() == []
        for share, expected in ((2.0, []), (1.15, [("ATTENTION", True)]), (0.9, [("BAD", True)])):
            client.config_set("maxmemory", int(share * used_by(client)))
            assert told() == expected, share
        client.config_set("maxmemory-policy", "volatile-lru")
        assert [each for each in findings(overview(board)) if each.kind == "short"] == []


def test_a_console_says_that_it_looks_itself_while_nobody_can_save_what_he_saw() -> None:
    with RedisServer() as server, fetch("looked at", server.uri) as board, server.client() as client:
        board.post("resize")
        client.config_set("maxmemory", "1mb")
        sampler = Sampler(board)
        sampler.look()
        assert (sampler.is_holder, sampler.looked_itself) == (False, True)
        assert "short" in [finding["kind"] for finding in sampler.status()["findings"]]
        sampler.stop()


def test_a_conductor_that_starts_while_memory_is_full_drains_the_board() -> None:
    with RedisServer() as server, fetch("drained", server.uri) as board, server.client() as client:
        board.post_many([Posting("resize", details=LARGE) for _ in range(60)])
        client.config_set("maxmemory", "1mb")
        with fetch("drained", server.uri) as new:
            assert drain(new) == 60
        client.config_set("maxmemory", "0")
        assert (board.job_count, board.audit()) == (0, [])


def test_what_became_due_is_seen_while_memory_is_full(board: JobBoard, memory: Memory, server: RedisServer) -> None:
    job, late = board.post("resize"), board.post("resize", delay=0.3)
    [found] = board.claim_next("alice", expiry=0.3)
    with server.client() as client:
        client.config_set("maxmemory", "1mb")
    eventually(lambda: (job.state, late.state) == (JobState.UNCLAIMED, JobState.UNCLAIMED))
    assert (found.uuid, board.stats().unclaimed, len(list(board.iterjobs()))) == (job.uuid, 2, 2)


def test_what_is_refused_while_memory_is_full_has_changed_nothing(full: JobBoard) -> None:
    count = full.job_count
    full.schedules.add(HOURLY, if_exists="keep")
    for refused in (
        lambda: full.post("resize"),
        lambda: full.post("report", key="k", if_exists="replace"),
        lambda: full.schedules.fire_now("hourly"),
    ):
        with pytest.raises(BoardUnavailable, match=r"refuses: it is out of memory \(maxmemory\)"):
            refused()
    assert (full.job_count, full.audit()) == (count, [])


@pytest.mark.parametrize(("size", "kept"), [(1_000, 1_000), (65_000, 65_000), (70_000, 0)])
def test_a_job_that_has_ended_without_retention_keeps_no_details(
    board: JobBoard, server: RedisServer, size: int, kept: int
) -> None:
    """Nor a result that is too long for the edge to a child which is posted then."""
    job = board.post("resize", details=LARGE)
    board.claim(job, "alice")
    board.consume(job, "alice", "x" * size)
    with server.client() as client:
        stored = client.get(f"{{jobboard:{board.name}}}:done:{job.uuid}") or b""
        assert kept < len(stored) < kept + 1000
    again = board.post("resize", details=LARGE, uuid=job.uuid)
    assert (again.uuid, again.details, board.job_count) == (job.uuid, LARGE, 0)


def test_a_replica_that_is_written_to_is_said_to_have_done_nothing(server: RedisServer) -> None:
    with RedisServer() as alone, RedisHarness(alone.uri) as harness:
        board = harness.board()
        board.post("resize")
        with alone.client() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", server.port)
            eventually(lambda: client.info("replication")["master_link_status"] == "up")
            with pytest.raises(BoardUnavailable, match="refuses: it is a replica"):
                board.claim_next("alice")


def sizes(client: Any) -> dict[bytes, int]:
    """Return how much stands in each key that does not end by itself."""
    size_of = {b"hash": client.hlen, b"zset": client.zcard, b"list": client.llen, b"set": client.scard}
    kinds = {key: client.type(key) for key in client.scan_iter() if client.pttl(key) == -1}
    return {key: size_of[kind](key) for key, kind in kinds.items() if kind in size_of}


def test_what_is_over_leaves_nothing_that_grows(board: JobBoard, server: RedisServer) -> None:
    def use(number: int) -> None:
        board.post(f"resize {number}", key="k")
        board.consume(claimed(board), "alice")
        job = board.post(f"crop {number}", delay=LONG)
        board.trash(job, by="alice")
        board.purge(job.uuid)
        book = LogBook("journal")
        for book.named in ({"a": 1, "b": 2}, {"a": 2}):
            board.save_book(book)
        kept = {key.rpartition(b":")[2]: size for key, size in sizes(client).items()}
        assert kept[b"entry_names"] == kept[b"book_entries"] == 1
        board.destroy_book(book.uuid)
        entity = Entity("conductor", f"alice {number}", {}, ttl=LONG)
        board.register_entity(entity)
        board.remove_entity(entity)
        board._backend.maintenance.tidy(100)

    with server.client() as client:
        use(1)
        first = sizes(client)
        use(2)
        assert sizes(client) == first
