-- Read the schedules that are due, earliest first; what is not due is not read.
--
-- KEYS: 1 the board
-- ARGV: 1 how many at most
-- Returns: OK; now; the moment at which the first one after those is due, or an empty string; then as read_schedules
-- Changes nothing, but takes out of `due` what is no schedule and would stand in the way of others.
--
-- include: schedules

-- A hundred years; beyond it nothing is waited for.
local LONGEST = 100 * 366 * 86400 * 1000000

local ids = redis.call('ZRANGEBYSCORE', key('due'), '-inf', now_text, 'LIMIT', '0', ARGV[1])
local following = redis.call('ZRANGE', key('due'), #ids, #ids, 'WITHSCORES')[2]
local shown = show_schedules(ids)
for index, id in ipairs(ids) do
  if not shown[4 * index - 2] then
    redis.call('ZREM', key('due'), id)
  end
end
local is_foreseen = following and tonumber(following) < now + LONGEST
return {'OK', now_text, is_foreseen and following or '', shown}
