"""Redis under measurement: a server of the benchmark's own, and two scripts that do the least for a claim."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager

import redis
from servers.redis_servers import RedisServer

from benchmarks.redis_lean import LeanRedis
from benchmarks.redis_scripts import OwnScripts
from benchmarks.space import Space, Store
from jobboard import fetch
from jobboard.backends.redis.codec import pack, pack_each, rows_of
from jobboard.backends.redis.scripts import load_scripts

# A claim with an owner, a lease and a fence, and its end, as any safe queue has to write them, after a look for what is
# due and for what expired; no history, no events, no waiters, no states to list, no names, no keys, no cancelled jobs.
_POST = """
local sequence = redis.call('INCRBY', KEYS[1] .. ':sequence', #ARGV / 2)
for index = 1, #ARGV, 2 do
  redis.call('HSET', KEYS[1] .. ':listings', ARGV[index], ARGV[index + 1])
  redis.call('HSET', KEYS[1] .. ':jobs', ARGV[index], cmsgpack.pack({token = 0, attempts = 0}))
  redis.call('ZADD', KEYS[1] .. ':ready', sequence + index, ARGV[index])
end
return sequence
"""
_CLAIM = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for _, timer in ipairs({'leases', 'delayed'}) do
  for _, uuid in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1] .. ':' .. timer, '-inf', now, 'LIMIT', 0, 100)) do
    redis.call('ZREM', KEYS[1] .. ':' .. timer, uuid)
    redis.call('ZADD', KEYS[1] .. ':ready', 0, uuid)
  end
end
local claimed = {}
for _, uuid in ipairs(redis.call('ZRANGE', KEYS[1] .. ':ready', 0, ARGV[2] - 1)) do
  local record = cmsgpack.unpack(redis.call('HGET', KEYS[1] .. ':jobs', uuid))
  record.token, record.attempts, record.owner = record.token + 1, record.attempts + 1, ARGV[1]
  redis.call('HSET', KEYS[1] .. ':jobs', uuid, cmsgpack.pack(record))
  redis.call('ZREM', KEYS[1] .. ':ready', uuid)
  redis.call('ZADD', KEYS[1] .. ':leases', now + 30000000, uuid)
  redis.call('SET', KEYS[1] .. ':owner:' .. uuid, ARGV[1], 'PX', 30000)
  claimed[#claimed + 1] = {uuid, record.token, redis.call('HGET', KEYS[1] .. ':listings', uuid)}
end
return claimed
"""
_CONSUME = """
local done = {}
for index = 2, #ARGV, 2 do
  local uuid = ARGV[index]
  local record = cmsgpack.unpack(redis.call('HGET', KEYS[1] .. ':jobs', uuid))
  local owner = redis.call('GET', KEYS[1] .. ':owner:' .. uuid)
  if owner == ARGV[1] and record.token == tonumber(ARGV[index + 1]) then
    redis.call('ZREM', KEYS[1] .. ':leases', uuid)
    redis.call('DEL', KEYS[1] .. ':owner:' .. uuid)
    redis.call('HDEL', KEYS[1] .. ':listings', uuid)
    redis.call('HDEL', KEYS[1] .. ':jobs', uuid)
    redis.call('SET', KEYS[1] .. ':done:' .. uuid, cmsgpack.pack(record), 'PX', 3600000)
    done[#done + 1] = uuid
  end
end
return done
"""


class BareRedis(OwnScripts):
    """redis-py and one ``EVALSHA`` for each post, claim and end."""

    beside = "bare EVALSHA"

    def __init__(self, uri: str) -> None:
        super().__init__(uri, _POST, _CLAIM, _CONSUME)

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            items = [part for _ in range(batch) for part in (str(uuid.uuid4()), b"\x80")]
            self._client.evalsha(self._post, 1, self._key, *items)
        return count

    def claim_and_consume(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            claimed = self._client.evalsha(self._claim, 1, self._key, "me", batch)
            holds = [part for job in claimed for part in (job[0], job[1])]
            done = self._client.evalsha(self._consume, 1, self._key, "me", *holds)
            if len(done) != batch:
                raise AssertionError("a bare claim was lost in a benchmark")
        return count


class SameScripts(OwnScripts):
    """The board's own scripts, called by redis-py: what is left is what the board does in Python."""

    beside = "its scripts, bare"

    def __init__(self, uri: str) -> None:
        scripts = load_scripts()
        super().__init__(uri, *(scripts[name].source for name in ("post", "claim_next", "consume")))

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            parts = [
                part for _ in range(batch) for part in (str(uuid.uuid4()), "bench", 3, None, "raise", None, None, None)
            ]
            self._client.evalsha(self._post, 1, self._key, pack_each(parts), *[b"\x80"] * batch)
        return count

    def claim_and_consume(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            request = pack(["me", uuid.uuid4().hex, 30_000_000, batch, None])
            _, parts, _ = self._client.evalsha(self._claim, 1, self._key, request)
            jobs = rows_of(parts)
            ends = pack([part for job in jobs for part in (job.uuid, "me", job.token, 3_600_000_000, False)])
            _, verdicts = self._client.evalsha(self._consume, 1, self._key, ends)
            if verdicts != [b"DONE"] * batch:
                raise AssertionError("a claim was lost in a benchmark")
        return count


@contextmanager
def _redis_space() -> Iterator[Space]:
    with RedisServer() as server:
        uri = server.uri
        yield Space(
            lambda name: fetch(name, uri, least_interval=0.1),
            lambda: closing(BareRedis(uri)),
            uri,
            largest_backlog=1_000_000,
            same=lambda: closing(SameScripts(uri)),
            lean=lambda: closing(LeanRedis(uri)),
            server_cpu=lambda: _cpu_of(uri),
        )


def _cpu_of(uri: str) -> float:
    with redis.Redis.from_url(uri) as client:
        told = client.info("cpu")
    return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


def _version() -> str:
    told = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=False).stdout
    return f"Redis {told.partition('v=')[2].partition(' ')[0]}, redis-py {redis.__version__}"


REDIS = Store(
    "redis",
    _redis_space,
    {
        "claim_next + consume one by one": "ratio >= 0.8",
        "claim_next + consume in batches of 100": ">= 20,000/s",
        "server CPU a pair in batches of 100": "ratio <= 1.07",
        "post in batches of 100": ">= 40,000/s",
        "claim_next with 1,000,000 waiting": "ratio <= 1.2",
        "drain no-op jobs, 64 slots": ">= 10,000/s",
        "pick-up in one process, p50": "< 2",
        "pick-up in one process, p99": "< 10",
        "pick-up across processes, p50": "< 2",
        "pick-up across processes, p99": "< 10",
        "drain by 2 processes": "ratio > 1",
        "10,000 schedules due at once, until all are posted": "<= 1.5",
        "finding 1 due among 100,000 schedules": "ratio <= 1.5",
        "lateness of a fire, p95": "<= 50",
    },
    _version,
)
