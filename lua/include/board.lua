-- The board and the present moment by the server's clock. All keys begin with KEYS[1] and so lie in one slot.
-- KEYS[1] itself is never a key: while a Cluster moves the slot, its node has to refuse every script for that reason.
-- All moments are whole microseconds since the epoch, which a double holds exactly.

local board = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_text = clock[1] .. string.sub('00000' .. clock[2], -6)

local RETRY_WINDOW = 60 * 1000000
local SOON = 6 * 1000000
-- How often claims whose owner is gone are searched.
local RESCUE_INTERVAL = 1000000
local PRIORITIES = 5
local PLACES_OF_PRIORITY = 281474976710656
local ENTRY_PARTS = 5
-- How many jobs that it must not touch a script skips at most.
local MAX_SKIPPED = 1000
local HISTORY_LENGTH = 20
local STATE_INDEXES = {
  DELAYED = 'delayed', UNCLAIMED = 'ready', CLAIMED = 'claimed', COMPLETE = 'complete', TRASHED = 'trash',
}

local function key(kind, name)
  return name and board .. ':' .. kind .. ':' .. name or board .. ':' .. kind
end

-- The sorted set of the jobs of one name in one state; the lowest place is claimed first.
local function state_index(state, name)
  return board .. ':' .. STATE_INDEXES[state] .. ':' .. name
end

-- The field of a job's key in the hash `keys`; neither part can contain a control character.
local function field(name, text)
  return name .. '\n' .. text
end
