#!lua flags=allow-oom
-- Grant no more claims of a name.
--
-- KEYS: 1 the board
-- ARGV: 1 the name, or an empty string for the whole board
-- Returns: OK
-- A repeat finds the name paused, and tells nobody again.
--
-- include: settle
-- include: changes

settle('50')

if redis.call('SADD', key('paused'), ARGV[1]) == 1 then
  announce('PAUSED', false, ARGV[1] ~= '' and ARGV[1], line_of('PAUSED'))
end
flush()
return {'OK'}
