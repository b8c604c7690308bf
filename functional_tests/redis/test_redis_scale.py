"""Three hundred thousand waiting jobs cost a claim no more than a hundred do, and eight processes share a board.

Neither do jobs that are BLOCKED, nor lanes.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgpack
import pytest
from harnesses.fixtures import a_harness, a_server
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import JobBoard, Posting
from jobboard.testing.contract.processes import Rival

pytestmark = pytest.mark.turn_of("scale of Redis")

LONG = 600.0

#: Posts what post.lua would have posted, many at a time: only the reading of the records tells them apart.
LOAD = """
local board, first, count = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local records, listings, ready = {}, {}, {}
for number = first, first + count - 1 do
  local uuid = string.format('00000000-0000-4000-8000-%012d', number)
  local place = string.format('%.0f', number)
  local record = '\\220\\0\\23' .. cmsgpack.pack(
    uuid, 'resize', 3, number, place, 1, 1, 'UNCLAIMED', 0, 0, 1, false, false, false, false, false, false, false,
    false, false, false, false, false) .. ARGV[4]
  local at = 2 * #ready / 2
  records[at + 1], records[at + 2] = uuid, record
  listings[at + 1], listings[at + 2] = uuid, ARGV[3]
  ready[at + 1], ready[at + 2] = place, string.format('%012x', number) .. uuid
end
redis.call('HSET', board .. ':jobs', unpack(records))
redis.call('HSET', board .. ':listings', unpack(listings))
redis.call('ZADD', board .. ':ready:resize', unpack(ready))
redis.call('ZADD', board .. ':names', 0, 'resize')
redis.call('ZADD', board .. ':heads', 'NX', ready[1], 'resize')
redis.call('HSET', board .. ':counters', 'sequence', first + count - 1)
"""


server = a_server(RedisServer)
harness = a_harness(RedisHarness)


def load(server: RedisServer, board: JobBoard, count: int) -> None:
    """Let ``count`` jobs wait."""
    posting = msgpack.packb([1, None, None, None, None]) + msgpack.packb({"n": 1})
    line = b"".join(map(msgpack.packb, ("POSTED", 1, False, False, False)))
    with server.client() as client, client.pipeline(transaction=False) as pipeline:
        sha = client.script_load(LOAD)
        for first in range(1, count + 1, 2000):
            pipeline.evalsha(sha, 1, f"{{jobboard:{board.name}}}", first, min(2000, count - first + 1), posting, line)
            if first % 10_000 == 1:
                pipeline.execute()
        pipeline.execute()


class Cost(NamedTuple):
    """What ten claims take in the server: how many calls of each command, and microseconds in scripts."""

    calls: dict[str, int]
    spent: float


def cost_of_claims(server: RedisServer, board: JobBoard) -> Cost:
    with server.client() as client:
        client.config_resetstat()
        jobs = [job for _ in range(10) for job in board.claim_next("alice", ["resize"], expiry=LONG)]
        told = client.info("commandstats")
    for job in jobs:
        board.abandon(job, "alice", counted=False)
    return Cost({name: each["calls"] for name, each in told.items()}, told["cmdstat_evalsha"]["usec"])


def assert_claims_cost_the_same(server: RedisServer, few: JobBoard, many: JobBoard) -> None:
    """Compare what was disturbed least: one command that reads all that is there takes many times as long."""
    rounds = [[cost_of_claims(server, board) for board in (few, many)] for _ in range(30)]
    of_few, of_many = (
        min(costs, key=lambda cost: (sum(cost.calls.values()), cost.spent)) for costs in zip(*rounds, strict=True)
    )
    assert of_many.calls == of_few.calls
    assert of_many.spent <= 2 * of_few.spent, rounds


def test_a_claim_costs_the_same_with_a_hundred_and_with_three_hundred_thousand_waiting(
    server: RedisServer, harness: RedisHarness
) -> None:
    few, many = harness.board(), harness.board()
    load(server, few, 100)
    load(server, many, 300_000)
    assert (few.job_count, many.job_count) == (100, 300_000)
    assert many.stats().names["resize"].unclaimed == 300_000
    assert_claims_cost_the_same(server, few, many)


@pytest.mark.parametrize(("lanes", "count"), [(1, 30_000), (10_000, 10_000)], ids=["one long lane", "many lanes"])
def test_a_claim_costs_the_same_beside_lanes(
    server: RedisServer, harness: RedisHarness, lanes: int, count: int
) -> None:
    alone, beside = harness.board(), harness.board()
    beside.limits.set(lane="tenant:*", running=1)
    for first in range(0, count, 1000):
        beside.post_many([Posting("other", lane=f"tenant:{number % lanes}") for number in range(first, first + 1000)])
    assert (beside.stats().unclaimed, beside.stats().blocked) == (lanes, count - lanes)
    for board in (alone, beside):
        load(server, board, 100)
    assert_claims_cost_the_same(server, alone, beside)


def test_eight_processes_consume_each_job_once(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board()
    posted = [job.uuid for job in board.post_many([Posting("resize") for _ in range(1_500)])]
    tasks = ["drain", "drain_in_batches"] * 4
    rivals = [Rival(task, harness.uri(), board.name, f"rival {number}") for number, task in enumerate(tasks)]
    try:
        for rival in rivals:
            rival.until_ready()
        for rival in rivals:
            rival.go()
        consumed = Counter(line["uuid"] for rival in rivals for line in rival.lines())
    finally:
        for rival in rivals:
            rival.end()
    assert consumed == Counter(posted)
    assert (board.job_count, board.audit()) == (0, [])
