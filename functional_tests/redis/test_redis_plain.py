"""The short paths of ``lua/`` for plain requests write the same as the long ones, which run while somebody listens."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgpack
import pytest
from harnesses.fixtures import a_harness, a_server
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import EventKind, JobBoard, JobPriority, Posting
from jobboard.backends.edge_rows import EdgeCounts, LinkOutcome
from jobboard.backends.redis import RedisBackend, waiting
from jobboard.backends.rows import ClaimRequest, Consumption, Fence, NewJob, PostOutcome, Ties, Verdict
from jobboard.board import client_of

LONG = 600.0

#: By how much the places of two priorities differ.
PRIORITY = 2**51

server = a_server(RedisServer)
harness = a_harness(RedisHarness)


def comparable(value: Any) -> Any:
    """Return a value as plain data, in which all moments are the same, and all claim ids, too; priorities differ."""
    if isinstance(value, bytes):
        if re.fullmatch(rb"-?[0-9]{13,}", value):
            return comparable(int(value))
        if re.fullmatch(rb"[0-9a-f]{32}", value):
            return "a claim id"
        unpacker = msgpack.Unpacker(raw=True, strict_map_key=False)
        unpacker.feed(value)
        try:
            parts = list(unpacker)
        except msgpack.UnpackException:
            return value
        # A text is a row of small numbers too.
        return value if all(isinstance(part, int) and part < 128 for part in parts) else comparable(parts)
    if isinstance(value, list | tuple | set):
        return [comparable(part) for part in value]
    if isinstance(value, dict):
        return sorted((name, comparable(part)) for name, part in value.items())
    return f"a moment {value // PRIORITY}" if isinstance(value, int | float) and abs(value) > 1e12 else value


class Keys:
    """All keys of a board."""

    def __init__(self, server: RedisServer, board: JobBoard) -> None:
        self._client = server.client(protocol=2)
        self._key = f"{{jobboard:{board.name}}}"
        self._read: dict[bytes, Callable[[bytes], Any]] = {
            b"hash": self._client.hgetall,
            b"set": self._client.smembers,
            b"string": lambda key: [self._client.get(key), self._client.pttl(key) > 0],
            b"zset": lambda key: self._client.zrange(key, 0, -1, withscores=True),
        }

    def items(self) -> Iterator[tuple[str, Any]]:
        owner_keys = []
        for key in sorted(self._client.scan_iter(self._key + "*")):
            name, value = key.decode().removeprefix(self._key), self._read[self._client.type(key)](key)
            if name.startswith(":owner:"):
                # The rest of its name is a claim id.
                owner_keys.append(value)
            else:
                yield name, comparable(value)
        yield "owner keys", sorted(owner_keys)
        self._client.close()


def lead(board: JobBoard, uuids: Sequence[str], lane: str | None) -> Iterator[None]:
    """Post, claim and consume, one by one and in batches, with all that is plain and some things that are not."""
    priorities = [JobPriority.LOW, JobPriority.VERY_HIGH, JobPriority.NORMAL, JobPriority.NORMAL, JobPriority.HIGH] * 2
    postings = [
        Posting("resize", details={"n": number}, priority=priority, uuid=each, max_attempts=number or None, lane=lane)
        for number, (each, priority) in enumerate(zip(uuids, priorities, strict=False))
    ]
    yield from (None for posting in postings[:2] if board.post_many([posting]))
    yield from (None for _ in range(2) if board.post_many(postings))
    (first,) = board.claim_next("alice", expiry=LONG)
    yield None
    board.abandon(first, "alice", reason="not now")
    yield None
    one, two, three, four = board.claim_next("alice", ["resize", "other"], limit=4, expiry=LONG)
    yield None
    board.checkpoint(one, "alice", [1])
    assert board.consume_many([two, three], "alice", results=["done", None]) == [None, None]
    yield None
    # While claims hold: a new one, a repeat of it, and one of what is consumed.
    yield from (None for each in (uuids[10], uuids[10], two.uuid) if board.post("resize", uuid=each))
    yield from (None for job in (one, four) if board.consume(job, "alice") is None)
    board.claim_next("alice", limit=100, expiry=LONG)
    yield None
    assert board.claim_next("alice", limit=100, expiry=LONG) == []
    yield None


@pytest.mark.parametrize("lane", [None, "a"])
def test_a_plain_path_writes_the_same(server: RedisServer, harness: RedisHarness, lane: str | None) -> None:
    plain, received = harness.board(), harness.board()
    received.subscribe(lambda event: None, set(EventKind))
    uuids = [str(uuid.uuid4()) for _ in range(11)]
    steps = 0
    for _ in zip(lead(plain, uuids, lane), lead(received, uuids, lane), strict=True):
        steps += 1
        assert dict(Keys(server, plain).items()) == dict(Keys(server, received).items())
    assert steps == 15
    assert plain.audit() == []


def test_a_post_that_claims_for_a_waiter_writes_the_same_as_a_post_and_a_claim(
    server: RedisServer, harness: RedisHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that the waiter is armed still when the job is posted.
    monkeypatch.setattr(waiting, "MAX_SLEEP", LONG)
    ahead, later = harness.board(), harness.board()
    each = str(uuid.uuid4())
    for board in (ahead, later):
        with client_of(board).waiter(frozenset(["resize"])) as waiter:
            if board is ahead:
                waiter.claim_ahead("alice", LONG)
            assert waiter.ready_in() is None
            harness.board(board.name).post("resize", details={"n": 1}, uuid=each)
            waiter.wait(60)
            rows, _ = waiter.claimed()
            assert [row.uuid for row in rows] == ([each] if board is ahead else [])
    assert len(later.claim_next("alice", ["resize"], expiry=LONG)) == 1
    written = [dict(Keys(server, board).items()) for board in (ahead, later)]
    # When each has searched for lost claims.
    assert [keys.pop(":swept") is not None for keys in written] == [True, True]
    assert written[0] == written[1]


@pytest.mark.parametrize("kinds", [set(), set(EventKind)], ids=["plain", "received"])
def test_completed_jobs_leave_the_indexes_after_their_retention(
    server: RedisServer, harness: RedisHarness, kinds: set[EventKind]
) -> None:
    board = harness.board()
    if kinds:
        board.subscribe(lambda event: None, kinds)
    board.post_many([Posting(name) for name in ("resize", "rotate") for _ in range(40)])
    for name, limit in (("resize", 39), ("resize", 1), ("rotate", 39)):
        assert set(board.consume_many(board.claim_next("alice", [name], limit=limit), "alice")) == {None}

    def indexes() -> dict[str, int]:
        return {name: len(value) for name, value in Keys(server, board).items() if name.startswith((":ret", ":comp"))}

    assert indexes() == {":complete:resize": 40, ":complete:rotate": 39, ":completed": 3}
    with server.client() as client:
        key = f"{{jobboard:{board.name}}}:completed"
        # As if that time were over, and something else of somebody's hand there.
        client.zadd(key, dict.fromkeys([*client.zrange(key, 0, -1), "something else"], 1))
    assert board._backend.maintenance.tidy(100) == 79
    assert indexes() == {}


def test_a_call_removes_few_more_completed_jobs_than_it_should(server: RedisServer, harness: RedisHarness) -> None:
    """What was completed together goes together; nothing more does."""
    board = harness.board()
    board.post_many([Posting("resize") for _ in range(240)])
    for _ in range(6):
        board.consume_many(board.claim_next("alice", limit=40), "alice")
    with server.client() as client:
        key = f"{{jobboard:{board.name}}}:completed"
        client.zadd(key, dict.fromkeys(client.zrange(key, 0, -1), 1))
    assert [board._backend.maintenance.tidy(50) for _ in range(4)] == [80, 80, 80, 0]


def lead_graph(backend: RedisBackend, uuids: Sequence[str]) -> Iterator[None]:
    """Post a graph in parts, let it go, and consume nine parents of one child; each step changes something."""
    *parents, child, graph = uuids
    for part in (parents[:6], parents[6:]):
        ties = Ties(has_children=True)
        new = [NewJob(each, "part", number % 5 + 1, b"{}", graph=graph, ties=ties) for number, each in enumerate(part)]
        # The repeat finds the jobs.
        yield from (None for _ in range(2) if backend.jobs.post(new))
    yield from (None for _ in backend.jobs.post([NewJob(child, "whole", 3, b"{}", parents=tuple(parents))]))
    backend.edges.seal(graph)
    yield None
    claimed = backend.jobs.claim_next(ClaimRequest("alice", "c" * 32, LONG), None, 100)
    assert [row.name for row in claimed] == ["part"] * 9
    yield None
    ends = [Consumption(Fence(row.uuid, "alice", row.token), row.uuid.encode(), LONG) for row in claimed]
    for part in (ends[:5], ends[5:8], ends[8:]):
        assert backend.jobs.consume(part) == [Verdict.DONE] * len(part)
        yield None
    assert [row.uuid for row in backend.jobs.claim_next(ClaimRequest("alice", "d" * 32, LONG), None, 2)] == [child]
    yield None


def lead_children(backend: RedisBackend, uuids: Sequence[str]) -> Iterator[None]:
    """Post two parents with children of two names in a graph, let it go, and consume the parents, then the children."""
    one, two, *children, lonely, graph = uuids
    parents = [NewJob(each, "root", 3, b"{}", graph=graph, ties=Ties(has_children=True)) for each in (one, two)]
    new = [
        NewJob(each, ("leaf", "part")[number % 2], number % 5 + 1, b"{}", graph=graph, parents=of_it)
        for number, (each, of_it) in enumerate(zip(children, [(one,), (one,), (one, two)] * 3, strict=False))
    ]
    yield from (None for part in (parents, new[::2], new[1::2]) for _ in range(2) if backend.jobs.post(part))
    yield from (None for _ in backend.jobs.post([NewJob(lonely, "leaf", 3, b"{}", graph=graph)]))
    for _ in range(2):
        backend.edges.seal(graph)
        yield None
    for number, owner in enumerate("abcd"):
        claimed = backend.jobs.claim_next(ClaimRequest("alice", owner * 32, LONG), frozenset(["root"]), 1)
        yield None
        for row in claimed:
            end = Consumption(Fence(row.uuid, "alice", row.token), bytes([number]), LONG)
            assert backend.jobs.consume([end]) == [Verdict.DONE]
            yield None
    claimed = backend.jobs.claim_next(ClaimRequest("alice", "e" * 32, LONG), None, 100)
    assert {row.uuid for row in claimed} == {*children, lonely}
    yield None


def lead_generations(backend: RedisBackend, uuids: Sequence[str]) -> Iterator[None]:
    """Post parts of a graph whose jobs wait for jobs of the same part, of an earlier one, and for an unknown one."""
    one, two, three, four, five, six, seven, eight, nine, unknown, graph = uuids
    ties = Ties(has_children=True)
    parts: list[list[tuple[str, tuple[str, ...], Ties | None]]] = [
        [(one, (), ties), (two, (one,), ties), (three, (one, two), None)],
        [(four, (two, one), ties), (five, (four, two, four), None)],
        # These are not plain: the parent gets its first child, or is not on the board.
        [(six, (), None), (seven, (six, one), None)],
        [(eight, (three,), None)],
        [(nine, (unknown, one), None)],
    ]
    for part in parts:
        new = [NewJob(each, "part", 3, b"{}", graph=graph, parents=of_it, ties=its) for each, of_it, its in part]
        for _ in range(2):
            outcomes = {posted.outcome for posted in backend.jobs.post(new)}
            assert (outcomes == {PostOutcome.NO_PARENT}) is (part is parts[-1])
            yield None
    backend.edges.seal(graph)
    yield None
    for owner, most in (("a", [one, six]), ("b", [two, seven]), ("c", [three, four]), ("d", [five, eight])):
        claimed = backend.jobs.claim_next(ClaimRequest("alice", owner * 32, LONG), None, 9)
        assert [row.uuid for row in claimed] == most
        yield None
        ends = [Consumption(Fence(row.uuid, "alice", row.token), b"1", LONG) for row in claimed]
        assert backend.jobs.consume(ends) == [Verdict.DONE] * len(ends)
        yield None


@pytest.mark.parametrize(("lead", "count"), [(lead_graph, 11), (lead_children, 16), (lead_generations, 19)])
def test_a_graph_writes_the_same(
    server: RedisServer,
    harness: RedisHarness,
    lead: Callable[[RedisBackend, Sequence[str]], Iterator[None]],
    count: int,
) -> None:
    plain, received = harness.board(), harness.board()
    received.subscribe(lambda event: None, set(EventKind))
    uuids = [str(uuid.uuid4()) for _ in range(11)]
    backends = [board._backend for board in (plain, received)]
    steps = 0
    for _ in zip(*(lead(backend, uuids) for backend in backends), strict=True):
        steps += 1
        assert dict(Keys(server, plain).items()) == dict(Keys(server, received).items())
    assert steps == count
    assert plain.audit() == []


def test_a_link_writes_the_same(server: RedisServer, harness: RedisHarness) -> None:
    linked, posted = harness.board(), harness.board()
    *parents, child, graph = (str(uuid.uuid4()) for _ in range(8))
    for board, most in ((linked, 2), (posted, 6)):
        jobs, ties = board._backend.jobs, Ties(has_children=True)
        jobs.post([NewJob(each, "part", 3, b"{}", graph=graph, ties=ties) for each in parents])
        board.trash(parents[5], by="ada")
        jobs.post([NewJob(child, "whole", 3, b"{}", graph=graph, parents=tuple(parents[:most]))])
    edges = linked._backend.edges
    # The last one is not plain: a parent is in the trash.
    for most, outcome in ((5, LinkOutcome.DONE), (5, LinkOutcome.REPEATED), (6, LinkOutcome.DONE)):
        assert edges.link(child, parents[2:most]) is outcome
    assert dict(Keys(server, linked).items()) == dict(Keys(server, posted).items())
    assert edges.counts([child]) == [EdgeCounts(open=5, failed=1)]
    assert linked.audit() == []
