-- Where a job stands among those of its name and state, which are a sorted set; the lowest is claimed first.

-- A job's place is the moment at which it became due, in microseconds since 2020, plus this many for each step of its
-- priority below NORMAL. So it stays below 2^53, up to which a double is exact, until 2091.
local PLACES_OF_PRIORITY, NORMAL, FIRST_MOMENT = 2251799813685248, 3, 1577836800000000

local function place_of(moment, priority)
  local since = math.max(0, math.min(moment - FIRST_MOMENT, PLACES_OF_PRIORITY - 1))
  return string.format('%.0f', since + (NORMAL - priority) * PLACES_OF_PRIORITY)
end

-- The moment at which a job became due, by its place.
local function moment_of(place, priority)
  return place - (NORMAL - priority) * PLACES_OF_PRIORITY + FIRST_MOMENT
end

-- The member of such a set. Of one place, the job that was posted first comes first.
local function member_of(uuid, sequence)
  return string.format('%012x', sequence) .. uuid
end
