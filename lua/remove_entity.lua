#!lua flags=allow-oom
-- Forget a participant.
--
-- KEYS: 1 the board
-- ARGV: 1 kind and name, a line break between them
-- Returns: OK
-- A repeat finds nothing.
--
-- include: keys

redis.call('HDEL', key('entities'), ARGV[1])
redis.call('HDEL', key('seen'), ARGV[1])
return {'OK'}
