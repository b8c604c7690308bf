-- include: prelude
-- Schedules: `stored_schedules` (a hash) has msgpack [version, next_at or false] and the body of each by id; `due` (a
-- sorted set) has every id by the moment at which it is due next, infinity for never.

local UNREADABLE = 'unreadable '

-- The version, the next moment and the body of a schedule; nothing if there is none. A value that can't be read is a
-- schedule too, and its body is the whole value: so it can be listed, set aside and removed like any other with a body
-- that can't be decoded.
local function decode_schedule(value)
  if not value then
    return
  end
  local readable, rest, head = pcall(cmsgpack.unpack_one, value)
  if not readable or type(head) ~= 'table' or type(head[1]) ~= 'string' or string.find(head[1], '[^%w%p ]')
    or head[2] and not is_number(head[2]) then
    return UNREADABLE .. redis.sha1hex(value), false, value
  end
  return head[1], head[2], rest >= 0 and string.sub(value, rest + 1) or ''
end

-- Four parts for each: id, version, next moment or false, body; version and body are false for a missing schedule.
local function schedule_rows(ids)
  local parts = {}
  if #ids > 0 then
    for index, value in ipairs(redis.call('HMGET', key('stored_schedules'), unpack(ids))) do
      local version, at, body = decode_schedule(value)
      parts[#parts + 1] = ids[index]
      parts[#parts + 1] = version or false
      parts[#parts + 1] = at and decimal(at) or false
      parts[#parts + 1] = body or false
    end
  end
  return parts
end

local function write_schedule(id, version, at, body)
  redis.call('HSET', key('stored_schedules'), id, cmsgpack.pack({version, at or false}) .. body)
  redis.call('ZADD', key('due'), at and decimal(at) or '+inf', id)
end
