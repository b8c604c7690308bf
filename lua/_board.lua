-- The board, whose keys all begin with KEYS[1] and so lie in one slot, and the present moment by the server's clock.
-- All moments are whole microseconds since the epoch, which a double holds exactly.

local board = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local RETRY_WINDOW = 60 * 1000000
local SOON = 6 * 1000000
local PLACES_OF_PRIORITY = 281474976710656
local STATES = {'DELAYED', 'UNCLAIMED', 'CLAIMED', 'COMPLETE', 'TRASHED'}
local ORDERS = {
  DELAYED = 'delayed', UNCLAIMED = 'ready', CLAIMED = 'claimed', COMPLETE = 'complete', TRASHED = 'trash',
}

local function key(kind, name)
  if name then
    return board .. ':' .. kind .. ':' .. name
  end
  return board .. ':' .. kind
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
  return string.format('%.0f', number)
end
