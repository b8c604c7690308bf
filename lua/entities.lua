-- Read all participants.
--
-- KEYS: 1 the board
-- ARGV: none
-- Returns: OK, now, and of each: kind and name, body, when it was seen, and its TTL
-- Changes nothing.
--
-- include: entities

local found = {}
local entities = redis.call('HGETALL', key('entities'))
for index = 1, #entities, 2 do
  local when, ttl = decode_seen(redis.call('HGET', key('seen'), entities[index]))
  if when then
    found[#found + 1] = entities[index]
    found[#found + 1] = entities[index + 1]
    found[#found + 1] = decimal(when)
    found[#found + 1] = decimal(ttl)
  end
end
return {'OK', now, found}
