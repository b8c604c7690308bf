#!lua flags=allow-oom
-- Allow no more claims of a name, and keep who wanted it, when and why.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [the name, or an empty string for the whole board; who or nil; reason or nil]
-- Returns: OK
-- A repeat finds the name paused, and neither changes nor publishes anything.
--
-- include: expire_and_promote
-- include: writeback

expire_and_promote('50')

local request = cmsgpack.unpack(ARGV[1])
local name = request[1]
if redis.call('SADD', key('paused'), name) == 1 then
  local entry = history_entry('PAUSED', request[2], nil, request[3])
  redis.call('HSET', key('pauses'), name, entry)
  announce('PAUSED', false, name ~= '' and name, entry)
end
write_back()
return {'OK'}
