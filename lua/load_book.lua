-- Read a book, and some of its entries.
--
-- KEYS: 1 the board
-- ARGV: 1 uuid; 2 the name of the last entry that was read before, or an empty string; 3 how many entries at most
-- Returns: MISSING; or OK, body, version, and names and bytes of the entries, in the order of their names
-- Changes nothing.
--
-- include: books

local uuid = ARGV[1]
local version = redis.call('HGET', key('versions'), uuid)
if not version then
  return {'MISSING'}
end
local answer = {'OK', redis.call('HGET', key('books'), uuid) or '', version}
local names = redis.call(
  'ZRANGEBYLEX', key('entry_names'), '(' .. uuid .. ARGV[2], last_of(uuid), 'LIMIT', 0, ARGV[3])
if #names > 0 then
  local found = redis.call('HMGET', key('book_entries'), unpack(names))
  for index, name in ipairs(names) do
    if found[index] then
      answer[#answer + 1] = string.sub(name, #uuid + 1)
      answer[#answer + 1] = found[index]
    end
  end
end
return answer
