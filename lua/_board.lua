-- The board, whose keys all begin with KEYS[1] and so lie in one slot, and the present moment by the server's clock.
-- KEYS[1] itself is never a key: while a Cluster moves the slot, its node has to refuse every script for that.
-- All moments are whole microseconds since the epoch, which a double holds exactly.

local board = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_text = clock[1] .. string.sub('00000' .. clock[2], -6)

local RETRY_WINDOW = 60 * 1000000
local SOON = 6 * 1000000
local PRIORITIES = 5
local PLACES_OF_PRIORITY = 281474976710656
local LINE_PARTS = 5
local RECORD_FIELDS = 23
local RECORD_HEAD = '\220\0\23'
-- So far a script looks past jobs that it has to leave alone.
local LOOK_PAST = 1000
local HISTORY_LENGTH = 20
local LIVE = {DELAYED = true, UNCLAIMED = true, CLAIMED = true}
local ORDERS = {
  DELAYED = 'delayed', UNCLAIMED = 'ready', CLAIMED = 'claimed', COMPLETE = 'complete', TRASHED = 'trash',
}
local TIMERS = {DELAYED = 'delayed', CLAIMED = 'leases'}

-- Jobs as this script sees them, by uuid, and what else is known of them: see _jobs.lua and _changes.lua.
local jobs, histories, before, finished, newer = {}, {}, {}, {}, {}
local changed, is_changed, bodies, packed, results, moved = {}, {}, {}, {}, {}, {}
local heard, events, latest, decimals = {}, {}, {}, {}

-- All that follows is one function, whose end the loader puts behind the script: Lua looks up a variable of the same
-- function in a list each time that a closure is made, and the many small functions below would pay for that.
return (function()

local function key(kind, name)
  return name and board .. ':' .. kind .. ':' .. name or board .. ':' .. kind
end

-- The order of jobs of one name in one state; the lowest place is claimed first.
local function order(state, name)
  return board .. ':' .. ORDERS[state] .. ':' .. name
end

-- The field of a key among the live jobs of a name; neither can hold a control character.
local function field(name, text)
  return name .. '\n' .. text
end

-- An exact decimal, where Lua's own would round to 14 digits.
local function decimal(number)
  local text = decimals[number]
  if not text then
    text = string.format('%.0f', number)
    decimals[number] = text
  end
  return text
end

-- Neither infinity nor what is no number is left over from itself.
local function is_number(value)
  return type(value) == 'number' and value - value == 0
end
