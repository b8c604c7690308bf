-- include: keys
-- Entries of books: `book_entries` has their bytes by the book's uuid and their name, in one text; `entry_names` has
-- these texts in order.

-- Names are UTF-8, in which no byte is 255.
local function last_of(uuid)
  return '(' .. uuid .. '\255'
end

local function remove_entries(uuid)
  for _ = 1, 1000 do
    local names = redis.call('ZRANGEBYLEX', key('entry_names'), '[' .. uuid, last_of(uuid), 'LIMIT', 0, 1000)
    if #names == 0 then
      return
    end
    redis.call('ZREM', key('entry_names'), unpack(names))
    redis.call('HDEL', key('book_entries'), unpack(names))
  end
end
