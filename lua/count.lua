-- Count the jobs on the board.
--
-- KEYS: 1 the board
-- ARGV: none
-- Returns: MORE (call again), or OK and the number
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote

if expire_and_promote('100') then
  return {'MORE'}
end

local count = redis.call('HLEN', key('jobs'))
for _, name in ipairs(redis.call('ZRANGE', key('names'), 0, -1)) do
  count = count - redis.call('ZCARD', state_index('TRASHED', name))
end
return {'OK', count}
