#!lua flags=allow-oom
-- Note that all lanes of a limit were looked at.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [scope, pattern, its version]; 2 the limit that is not pending, or an empty string to delete it
-- Returns: OK
-- A repeat writes the same, or finds another version.
--
-- include: limits

local scope, pattern, version = unpack(cmsgpack.unpack(ARGV[1]))
local stored = decode_limit(redis.call('HGET', key('limits'), field(scope, pattern)) or nil)
if stored and stored.version == version then
  if ARGV[2] == '' then
    redis.call('HDEL', key('limits'), field(scope, pattern))
  else
    redis.call('HSET', key('limits'), field(scope, pattern), ARGV[2])
  end
end
return {'OK'}
