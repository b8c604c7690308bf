#!lua flags=allow-oom
-- End a pause, and wake waiters.
--
-- KEYS: 1 the board
-- ARGV: 1 the name, or an empty string for the whole board
-- Returns: OK
-- A repeat finds no pause, and publishes nothing.
--
-- include: expire_and_promote
-- include: writeback

expire_and_promote('50')

redis.call('HDEL', key('pauses'), ARGV[1])
if redis.call('SREM', key('paused'), ARGV[1]) == 1 then
  announce('RESUMED', false, ARGV[1] ~= '' and ARGV[1], history_entry('RESUMED'))
  local ready, timed = {}, {}
  local names = ARGV[1] ~= '' and {ARGV[1]} or redis.call('ZRANGE', key('names'), 0, -1)
  for _, name in ipairs(names) do
    local count = redis.call('ZCARD', state_index('UNCLAIMED', name))
    if count > 0 then
      ready[name] = math.min(count, 1000)
    else
      -- Waiters that were armed during the pause don't know what is due next.
      timed[name] = true
    end
  end
  wake_waiters(ready, timed)
end
write_back()
return {'OK'}
