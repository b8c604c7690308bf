-- Read a book.
--
-- KEYS: 1 the board
-- ARGV: 1 uuid
-- Returns: MISSING, or OK, body and version
-- Changes nothing.
--
-- include: board

local version = redis.call('HGET', key('versions'), ARGV[1])
if not version then
  return {'MISSING'}
end
return {'OK', redis.call('HGET', key('books'), ARGV[1]) or '', version}
