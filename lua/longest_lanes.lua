-- Count the jobs of the lanes with the most BLOCKED ones.
--
-- KEYS: 1 the board
-- ARGV: 1 how many lanes
-- Returns: MORE (call again), or OK, and of each lane what lane_rows.lua tells
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote
-- include: lane_rows

if expire_and_promote('100') then
  return {'MORE'}
end

local count, rows, seen = tonumber(ARGV[1]), {}, {}

local function add_rows_of(lanes)
  for _, lane in ipairs(lanes) do
    if #rows < count and not seen[lane] then
      seen[lane] = true
      rows[#rows + 1] = lane_row(lane)
    end
  end
end

add_rows_of(redis.call('ZRANGE', key('blocked_lanes'), 0, count - 1, 'REV'))
if #rows < count then
  add_rows_of(redis.call('ZRANGE', key('lanes'), 0, 2 * count - 1))
end
return {'OK', rows}
