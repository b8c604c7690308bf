#!lua flags=allow-oom
-- Write or delete a limit.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [scope, pattern or name, its version, the version that must be stored or nil for none, whether it is
--       deleted, of a name how many may run or nil, who or nil, what it says]; 2 the limit, as limits.py packs it
-- Returns: OK, and DONE, REPEATED or LOST
-- A repeat finds its version, or no limit.
--
-- include: expire_and_promote
-- include: limits
-- include: name_limits
-- include: wake_names

expire_and_promote('50')

local request = cmsgpack.unpack(ARGV[1])
local scope, pattern, version, after, is_deleted, running = unpack(request, 1, 6)

local stored = decode_limit(redis.call('HGET', key('limits'), field(scope, pattern)) or nil)
local found = stored and stored.version
if found == version or is_deleted and after and not stored then
  return {'OK', 'REPEATED'}
end
if found ~= after then
  return {'OK', 'LOST'}
end
if is_deleted then
  redis.call('HDEL', key('limits'), field(scope, pattern))
else
  redis.call('HSET', key('limits'), field(scope, pattern), ARGV[2])
end
announce('LIMITED', false, scope == 'name' and pattern, history_entry('LIMITED', request[7], nil, request[8]))
if scope == 'name' then
  limit_name(pattern, running)
  wake_names({pattern})
end
write_back()
return {'OK', 'DONE'}
