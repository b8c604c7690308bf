-- Read the schedules that are due, earliest first, and no others.
--
-- KEYS: 1 the board
-- ARGV: 1 how many at most
-- Returns: OK; now; the moment at which the next one after those is due, or an empty string; the schedules as
--       read_schedules.lua returns them
-- Removes from `due` members without a schedule, which would hide others; a repeat finds none.
--
-- include: schedules

-- A hundred years; nobody waits longer.
local MAX_WAIT = 100 * 366 * 86400 * 1000000

local ids = redis.call('ZRANGEBYSCORE', key('due'), '-inf', now_text, 'LIMIT', '0', ARGV[1])
local following = redis.call('ZRANGE', key('due'), #ids, #ids, 'WITHSCORES')[2]
local rows = schedule_rows(ids)
for index, id in ipairs(ids) do
  if not rows[4 * index - 2] then
    redis.call('ZREM', key('due'), id)
  end
end
local is_foreseen = following and tonumber(following) < now + MAX_WAIT
return {'OK', now_text, is_foreseen and following or '', rows}
