-- include: clock
-- include: keys
-- include: places
-- What most scripts need besides.

local now_text = clock[1] .. string.sub('00000' .. clock[2], -6)

local RETRY_WINDOW = 60 * 1000000
-- How often claims whose owner is gone are searched.
local RESCUE_INTERVAL = 1000000
local PRIORITIES = 5
local ENTRY_PARTS = 5
-- How many jobs that it must not touch a script skips at most.
local MAX_SKIPPED = 1000
local HISTORY_LENGTH = 20
local STATE_INDEXES = {
  DELAYED = 'delayed', BLOCKED = 'blocked', UNCLAIMED = 'ready', CLAIMED = 'claimed', COMPLETE = 'complete',
  TRASHED = 'trash',
}

-- The sorted set of the jobs of one name in one state, by place; the lowest is claimed first.
local function state_index(state, name)
  return board .. ':' .. STATE_INDEXES[state] .. ':' .. name
end

-- For how long a graph may get no further part.
local GRAPH_TTL = 60 * 1000000

local MEMBER_LENGTH = 48

local function uuids_of(members)
  local uuids = {}
  for number, member in ipairs(members) do
    uuids[number] = string.sub(member, 13)
  end
  return uuids
end

-- A name and a text in one, as the field of a job's key in the hash `keys`; neither can contain a control character.
local function field(name, text)
  return name .. '\n' .. text
end
