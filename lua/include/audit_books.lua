-- include: books
-- The part of an audit that checks the entries of books. audit.lua defines `repair`, `report` and CHUNK.

local function check_book_entries(cursor)
  local found = redis.call('HSCAN', key('book_entries'), cursor, 'COUNT', CHUNK)
  for index = 1, #found[2], 2 do
    local name = found[2][index]
    if redis.call('HEXISTS', key('versions'), string.sub(name, 1, 36)) == 0 then
      report('', 'an entry belongs to no logbook')
      if repair then
        redis.call('HDEL', key('book_entries'), name)
        redis.call('ZREM', key('entry_names'), name)
      end
    elseif not redis.call('ZSCORE', key('entry_names'), name) then
      report('', 'an entry of a logbook is not listed')
      if repair then
        redis.call('ZADD', key('entry_names'), 0, name)
      end
    end
  end
  return found[1] ~= '0' and found[1]
end

-- The cursor is the last name that was checked.
local function check_entry_names(cursor)
  local names = redis.call(
    'ZRANGEBYLEX', key('entry_names'), cursor == '0' and '-' or '(' .. cursor, '+', 'LIMIT', 0, CHUNK)
  for _, name in ipairs(names) do
    if redis.call('HEXISTS', key('book_entries'), name) == 0 then
      report('', 'an entry of a logbook is listed, but missing')
      if repair then
        redis.call('ZREM', key('entry_names'), name)
      end
    end
  end
  return #names == CHUNK and names[#names]
end
