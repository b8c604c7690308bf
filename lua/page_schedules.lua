-- Read the next schedules, by the moment at which they are due, then by id; those that never are come last.
--
-- KEYS: 1 the board
-- ARGV: 1 the moment and 2 the id after which to begin (empty: the head); 3 how many
-- Returns: OK; as read_schedules
-- Changes nothing.
--
-- include: schedules

-- Whether one id comes after another, byte by byte, as in the sorted set; Lua would go by the server's locale.
local function comes_after(one, other)
  for at = 1, math.min(#one, #other) do
    local mine, its = string.byte(one, at), string.byte(other, at)
    if mine ~= its then
      return mine > its
    end
  end
  return #one > #other
end

-- How many come before this place or are at it; of one moment there may be many, so it is found by halving.
local function rank_after(moment, id)
  local low = redis.call('ZCOUNT', key('due'), '-inf', '(' .. moment)
  local high = redis.call('ZCOUNT', key('due'), '-inf', moment)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if not comes_after(redis.call('ZRANGE', key('due'), middle, middle)[1], id) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

local first = ARGV[2] == '' and 0 or rank_after(ARGV[1], ARGV[2])
return {'OK', show_schedules(redis.call('ZRANGE', key('due'), first, first + ARGV[3] - 1))}
