#!lua
-- Write a book if its stored version is the expected one.
--
-- KEYS: 1 the board
-- ARGV: 1 uuid; 2 body; 3 version; 4 the expected version, or an empty string for none
-- Returns: OK, or STALE
-- A repeat finds its own version, and is OK.
--
-- include: board

local stored = redis.call('HGET', key('versions'), ARGV[1]) or ''
if stored == ARGV[3] then
  return {'OK'}
end
if stored ~= ARGV[4] then
  return {'STALE'}
end
redis.call('HSET', key('books'), ARGV[1], ARGV[2])
redis.call('HSET', key('versions'), ARGV[1], ARGV[3])
return {'OK'}
