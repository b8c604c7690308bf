"""What the board writes for plain jobs, by scripts that check next to nothing: what its own rules and cases cost."""

from __future__ import annotations

import uuid

import msgpack

from benchmarks.redis_scripts import OwnScripts
from jobboard.backends.redis.codec import pack

# The keys and the values of a board for jobs of one name, as lua/include/*_plainly.lua writes them. Only the fence is
# checked; not checked are what is due, who listens, what is paused, whether a post is a repeat, and whether a record
# can be read.
_POST = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local board = KEYS[1]
local uuids = cmsgpack.unpack(ARGV[1])
local sequence = redis.call('HINCRBY', board .. ':counters', 'sequence', #uuids) - #uuids
local records, listings, places = {}, {}, {}
local entry = cmsgpack.pack('POSTED', now, false, false, false)
for i, uuid in ipairs(uuids) do
  local s = sequence + i
  local place = string.format('%.0f', s - 3 * 281474976710656)
  records[2 * i - 1], records[2 * i] = uuid, '\\220\\0\\23' .. cmsgpack.pack(
    uuid, 'bench', 3, s, place, now, now, 'UNCLAIMED', 0, 0, 1,
    false, false, false, false, false, false, false, false, false, false, false, false) .. entry
  listings[2 * i - 1], listings[2 * i] = uuid, ARGV[i + 1]
  places[2 * i - 1], places[2 * i] = place, uuid
end
redis.call('HSET', board .. ':jobs', unpack(records))
redis.call('HSET', board .. ':listings', unpack(listings))
redis.call('ZADD', board .. ':ready:bench', unpack(places))
redis.call('ZADD', board .. ':names', 'NX', '0', 'bench')
redis.call('ZADD', board .. ':heads', 'LT', places[1], 'bench')
return sequence
"""
_CLAIM = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local board, who, id, limit = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local uuids = redis.call('ZRANGE', board .. ':ready:bench', 0, limit - 1)
local values = redis.call('HMGET', board .. ':jobs', unpack(uuids))
local postings = redis.call('HMGET', board .. ':listings', unpack(uuids))
local lease = string.format('%.0f', now + 30000000)
local ttl = string.format('%.0f', math.ceil((now + 30000000) / 1000))
local entry = cmsgpack.pack('CLAIMED', now, who, now, false)
local rows, records, places, leases = {}, {}, {}, {}
for i, uuid in ipairs(uuids) do
  local rest, u, name, priority, sequence, place, created, modified, state, attempts, token, length,
    key, most, run_at, owner, claim_id, expires, cancel, reason, fault, checkpoint, progress, retained
    = cmsgpack.unpack_limit(values[i], 23, 3)
  local record = '\\220\\0\\23' .. cmsgpack.pack(
    uuid, name, priority, sequence, place, created, now, 'CLAIMED', attempts + 1, now, length + 1,
    key, most, run_at, who, id, now + 30000000, cancel, reason, fault, checkpoint, progress, retained)
  rows[2 * i - 1], rows[2 * i] = record, postings[i]
  records[2 * i - 1], records[2 * i] = uuid, record .. string.sub(values[i], rest + 1) .. entry
  places[2 * i - 1], places[2 * i] = place, uuid
  leases[2 * i - 1], leases[2 * i] = lease, uuid
end
redis.call('SET', board .. ':owner:' .. id, #uuids, 'PXAT', ttl)
redis.call('HSET', board .. ':jobs', unpack(records))
redis.call('ZREM', board .. ':ready:bench', unpack(uuids))
redis.call('ZADD', board .. ':claimed:bench', unpack(places))
redis.call('ZADD', board .. ':leases', unpack(leases))
local head = redis.call('ZRANGE', board .. ':ready:bench', '0', '0', 'WITHSCORES')
if head[2] then
  redis.call('ZADD', board .. ':heads', head[2], 'bench')
else
  redis.call('ZREM', board .. ':heads', 'bench')
end
return rows
"""
_CONSUME = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local board, who = KEYS[1], ARGV[1]
local ends = cmsgpack.unpack(ARGV[2])
local uuids, id = {}, nil
for i = 1, #ends / 2 do
  uuids[i] = ends[2 * i - 1]
end
local values = redis.call('HMGET', board .. ':jobs', unpack(uuids))
local postings = redis.call('HMGET', board .. ':listings', unpack(uuids))
local retained = string.format('%.0f', now + 3600000000)
local ttl = string.format('%.0f', math.ceil((now + 3660000000) / 1000))
local places = {}
for i, uuid in ipairs(uuids) do
  local rest, u, name, priority, sequence, place, created, modified, state, attempts, token, length,
    key, most, run_at, owner, claim_id, expires, cancel, reason, fault, checkpoint, progress, kept
    = cmsgpack.unpack_limit(values[i], 23, 3)
  if owner ~= who or token ~= ends[2 * i] then
    return i - 1
  end
  id = claim_id
  local record = '\\220\\0\\23' .. cmsgpack.pack(
    uuid, name, priority, sequence, place, created, now, 'COMPLETE', attempts, token, length + 1,
    key, most, run_at, owner, false, false, cancel, reason, fault, checkpoint, progress, now + 3600000000)
  local entry = cmsgpack.pack('CONSUMED', now, who, token, false)
  redis.call('SET', board .. ':done:' .. uuid,
    cmsgpack.pack(record, string.sub(values[i], rest + 1) .. entry, postings[i], false, false, false), 'PXAT', ttl)
  places[2 * i - 1], places[2 * i] = place, uuid
end
redis.call('HDEL', board .. ':jobs', unpack(uuids))
redis.call('HDEL', board .. ':listings', unpack(uuids))
redis.call('ZREM', board .. ':claimed:bench', unpack(uuids))
redis.call('ZREM', board .. ':leases', unpack(uuids))
redis.call('ZADD', board .. ':complete:bench', unpack(places))
redis.call('ZADD', board .. ':completed', retained, 'bench\\n' .. table.concat(uuids))
redis.call('DEL', board .. ':owner:' .. id)
return #uuids
"""
_POSTING = b"\x95\x01\xc0\xc0\xc0\xc0\x80"
_TOKEN = 9


class LeanRedis(OwnScripts):
    """redis-py and one ``EVALSHA`` for each post, claim and end."""

    beside = "lean scripts"

    def __init__(self, uri: str) -> None:
        super().__init__(uri, _POST, _CLAIM, _CONSUME)

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            uuids = pack([str(uuid.uuid4()) for _ in range(batch)])
            self._client.evalsha(self._post, 1, self._key, uuids, *[_POSTING] * batch)
        return count

    def claim_and_consume(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            claimed = self._client.evalsha(self._claim, 1, self._key, "me", uuid.uuid4().hex, batch)
            records = [msgpack.unpackb(record) for record in claimed[::2]]
            ends = pack([part for record in records for part in (record[0], record[_TOKEN])])
            if self._client.evalsha(self._consume, 1, self._key, "me", ends) != batch:
                raise AssertionError("a lean claim was lost in a benchmark")
        return count
