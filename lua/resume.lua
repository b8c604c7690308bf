#!lua flags=allow-oom
-- End a pause, and wake waiters.
--
-- KEYS: 1 the board
-- ARGV: 1 the name, or an empty string for the whole board
-- Returns: OK
-- A repeat finds no pause, and publishes nothing.
--
-- include: expire_and_promote
-- include: wake_names

expire_and_promote('50')

redis.call('HDEL', key('pauses'), ARGV[1])
if redis.call('SREM', key('paused'), ARGV[1]) == 1 then
  announce('RESUMED', false, ARGV[1] ~= '' and ARGV[1], history_entry('RESUMED'))
  wake_names(ARGV[1] ~= '' and {ARGV[1]} or redis.call('ZRANGE', key('names'), 0, -1))
end
write_back()
return {'OK'}
