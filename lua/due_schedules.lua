-- Read the schedules that are due, earliest first; what is not due is not read.
--
-- KEYS: 1 the board
-- ARGV: 1 how many at most
-- Returns: OK; now; the moment at which the first one after those is due, or an empty string; then as read_schedules
-- Changes nothing.
--
-- include: schedules

local ids = redis.call('ZRANGEBYSCORE', key('due'), '-inf', now_text, 'LIMIT', '0', ARGV[1])
local following = redis.call('ZRANGE', key('due'), #ids, #ids, 'WITHSCORES')[2] or 'inf'
return {'OK', now_text, following ~= 'inf' and following or '', show_schedules(ids)}
