#!lua flags=allow-oom
-- Allow no more claims of a name.
--
-- KEYS: 1 the board
-- ARGV: 1 the name, or an empty string for the whole board
-- Returns: OK
-- A repeat finds the name paused, and publishes nothing.
--
-- include: expire_and_promote
-- include: writeback

expire_and_promote('50')

if redis.call('SADD', key('paused'), ARGV[1]) == 1 then
  announce('PAUSED', false, ARGV[1] ~= '' and ARGV[1], history_entry('PAUSED'))
end
write_back()
return {'OK'}
