-- All keys of a board begin with KEYS[1] and so lie in one slot. KEYS[1] itself is never a key: while a Cluster moves
-- the slot, its node has to refuse every script for that reason.

local board = KEYS[1]

local function key(kind, name)
  return name and board .. ':' .. kind .. ':' .. name or board .. ':' .. kind
end

-- The caller then sends WAIT or WAITAOF, which from Redis 8 on wait only for what its connection has written. So each
-- call writes something, also a repeat that finds its work done by a try whose copies are still on their way.
if KEYS[2] then
  redis.call('SET', KEYS[2], '', 'EX', '60')
end
