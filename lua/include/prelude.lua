-- include: board
-- What a script knows of its jobs, and small functions.

local LIVE = {DELAYED = true, BLOCKED = true, UNCLAIMED = true, CLAIMED = true}
-- In which set of its lane a job is, by its state: see lanes.lua.
local LANE_SETS = {BLOCKED = 'lane', UNCLAIMED = 'held', CLAIMED = 'held'}
local TIMERS = {DELAYED = 'delayed', CLAIMED = 'leases'}

-- The jobs that this script has loaded, by uuid, and what else is known of them: see records.lua and writeback.lua.
local jobs, histories, before, finished, newer = {}, {}, {}, {}, {}
local changed, is_changed, bodies, packed, results, moved = {}, {}, {}, {}, {}, {}
local lane_sets, has_lanes = {}, false
local has_listeners, events, last_entry, decimals = {}, {}, {}, {}

-- The rest of the script is one function, whose end the loader appends: Lua looks a variable of the same function up in
-- a list each time that it makes a closure, and the many small functions below would pay for that.
return (function()

-- The exact decimal; Lua's own conversion rounds to 14 digits.
local function decimal(number)
  local text = decimals[number]
  if not text then
    text = string.format('%.0f', number)
    decimals[number] = text
  end
  return text
end

-- Infinity minus itself is not 0, and neither is NaN minus itself.
local function is_number(value)
  return type(value) == 'number' and value - value == 0
end
