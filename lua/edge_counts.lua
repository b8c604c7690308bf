-- Count the parents of jobs by how they have ended.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [child, ...]
-- Returns: OK, and for each how many are OPEN, DONE, FAILED and GONE
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote

expire_and_promote('50')

local counts = {}
for number, child in ipairs(cmsgpack.unpack(ARGV[1])) do
  local ended = redis.call('HLEN', key('ends', child))
  local failed, gone = redis.call('SCARD', key('failed', child)), redis.call('SCARD', key('gone', child))
  local open = redis.call('ZCARD', key('parents', child)) - ended
  counts[number] = {open, ended - failed - gone, failed, gone}
end
return {'OK', counts}
