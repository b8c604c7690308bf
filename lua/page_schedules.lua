-- Read the next schedules, by the moment at which they are due, then by id; those that are never due come last.
--
-- KEYS: 1 the board
-- ARGV: 1 the moment and 2 the id after which to begin (empty strings at first); 3 how many
-- Returns: OK; moment and id of the last one, as `due` has them (empty strings at the end); the schedules as
--       read_schedules.lua returns them
-- Changes nothing.
--
-- include: schedules
-- include: rank_after

local first = ARGV[2] == '' and 0 or rank_after(key('due'), ARGV[1], ARGV[2])
local found = redis.call('ZRANGE', key('due'), first, first + ARGV[3] - 1, 'WITHSCORES')
local ids = {}
for index = 1, #found, 2 do
  ids[#ids + 1] = found[index]
end
local is_last = #ids < tonumber(ARGV[3])
return {'OK', is_last and '' or found[#found], is_last and '' or ids[#ids], schedule_rows(ids)}
