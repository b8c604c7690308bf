-- The board and the present moment by the server's clock. All keys begin with KEYS[1] and so lie in one slot.
-- KEYS[1] itself is never a key: while a Cluster moves the slot, its node has to refuse every script for that reason.
-- All moments are whole microseconds since the epoch, which a double holds exactly.

local board = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local PLACES_OF_PRIORITY = 281474976710656

local function key(kind, name)
  return name and board .. ':' .. kind .. ':' .. name or board .. ':' .. kind
end
