#!lua flags=allow-oom
-- Register a participant as seen now.
--
-- KEYS: 1 the board
-- ARGV: 1 kind and name, a line break between them; 2 TTL in microseconds; 3 its body; 4 a uuid
-- Returns: OK, and 1 if there is a logbook of that uuid, or else 0
-- A repeat writes the same again.
--
-- include: clock
-- include: keys

redis.call('HSET', key('entities'), ARGV[1], ARGV[3])
redis.call('HSET', key('seen'), ARGV[1], cmsgpack.pack({now, tonumber(ARGV[2])}))
return {'OK', redis.call('HEXISTS', key('versions'), ARGV[4])}
