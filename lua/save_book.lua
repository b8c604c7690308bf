#!lua
-- Take a book's step if its stored version is the expected one, and the claim holds that it is made under, if any.
--
-- KEYS: 1 the board
-- ARGV: 1 uuid; 2 body; 3 version; 4 the expected version, or an empty string for none; 5 msgpack [uuid, who, token] of
--       the claim, or an empty string; 6 how many entries to write; name and bytes of each; the names of those to
--       remove
-- Returns: OK, or STALE, or LOST
-- A repeat finds its own version, and is OK.
--
-- include: expire_and_promote
-- include: fence
-- include: books

local uuid = ARGV[1]
local stored = redis.call('HGET', key('versions'), uuid) or ''
if stored == ARGV[3] then
  return {'OK'}
end
if ARGV[5] ~= '' then
  expire_and_promote('50')
  local fence = cmsgpack.unpack(ARGV[5])
  check_fences({fence})
  local is_held = fenced_job(fence)
  write_back()
  if not is_held then
    return {'LOST'}
  end
end
if stored ~= ARGV[4] then
  return {'STALE'}
end
if stored == '' then
  remove_entries(uuid)
end
redis.call('HSET', key('books'), uuid, ARGV[2])
redis.call('HSET', key('versions'), uuid, ARGV[3])
local last = 6 + 2 * ARGV[6]
for index = 7, last, 2 do
  redis.call('ZADD', key('entry_names'), 0, uuid .. ARGV[index])
  redis.call('HSET', key('book_entries'), uuid .. ARGV[index], ARGV[index + 1])
end
for index = last + 1, #ARGV do
  redis.call('ZREM', key('entry_names'), uuid .. ARGV[index])
  redis.call('HDEL', key('book_entries'), uuid .. ARGV[index])
end
return {'OK'}
