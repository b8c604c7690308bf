#!lua flags=allow-oom
-- Register a participant as seen now.
--
-- KEYS: 1 the board
-- ARGV: 1 kind and name, a line break between them; 2 TTL in microseconds; 3 its body
-- Returns: OK
-- A repeat writes the same again.
--
-- include: clock
-- include: keys

redis.call('HSET', key('entities'), ARGV[1], ARGV[3])
redis.call('HSET', key('seen'), ARGV[1], cmsgpack.pack({now, tonumber(ARGV[2])}))
return {'OK'}
