-- Tell which of the rights that a board needs this user lacks: without one of them a script would fail halfway.
--
-- KEYS: 1 the board
-- ARGV: 1.. further commands that are needed
-- Returns: OK, and the missing rights, written as in an access control list
-- Changes nothing.
--
-- include: board

local any, channel = key('rights'), key('events', 'RIGHTS')

-- Each with as many arguments as it needs.
local NEEDED = {
  {'TIME'}, {'EXISTS', any}, {'PEXPIREAT', any, '0', 'GT'}, {'SET', any, ''}, {'DEL', any}, {'MGET', any},
  {'HGET', any, ''}, {'HSET', any, '', ''}, {'HSETNX', any, '', ''}, {'HDEL', any, ''}, {'HMGET', any, ''},
  {'HLEN', any}, {'HEXISTS', any, ''}, {'HGETALL', any}, {'HINCRBY', any, '', '1'}, {'HSCAN', any, '0'},
  {'ZADD', any, '0', ''}, {'ZREM', any, ''}, {'ZRANGE', any, '0', '0'}, {'ZRANGEBYSCORE', any, '0', '0'},
  {'ZRANGEBYLEX', any, '-', '+'}, {'ZCARD', any}, {'ZCOUNT', any, '0', '0'}, {'ZSCORE', any, ''}, {'ZRANDMEMBER', any},
  {'SADD', any, ''}, {'SREM', any, ''}, {'SMEMBERS', any}, {'SCARD', any}, {'SRANDMEMBER', any},
  {'RPUSH', any, ''}, {'RPOP', any}, {'LSET', any, '0', ''}, {'LRANGE', any, '0', '0'},
  {'SPUBLISH', channel, ''}, {'PUBSUB', 'SHARDNUMSUB', channel}, {'SSUBSCRIBE', channel}, {'SUNSUBSCRIBE', channel},
  {'PING'},
}
for _, command in ipairs(ARGV) do
  NEEDED[#NEEDED + 1] = {command}
end

local missing = {}
if not redis.acl_check_cmd then
  -- Another server than Redis, which can't check this.
  return {'OK', missing}
end
for _, request in ipairs(NEEDED) do
  local is_known, is_allowed = pcall(redis.acl_check_cmd, unpack(request))
  if not (is_known and is_allowed) then
    local subcommand = request[1] == 'PUBSUB' and '|' .. request[2] or ''
    missing[#missing + 1] = string.lower('+' .. request[1] .. subcommand)
  end
end
return {'OK', missing}
