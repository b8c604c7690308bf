-- Read all participants.
--
-- KEYS: 1 the board
-- ARGV: none
-- Returns: OK, now, and for each kind and name, what it says of itself, and msgpack [when it was seen, its TTL]
-- Changes nothing.
--
-- include: board

local found = {}
local entities = redis.call('HGETALL', key('entities'))
for index = 1, #entities, 2 do
  local seen = redis.call('HGET', key('seen'), entities[index])
  if seen then
    found[#found + 1] = entities[index]
    found[#found + 1] = entities[index + 1]
    found[#found + 1] = seen
  end
end
return {'OK', now, found}
