-- include: board
-- Schedules: `schedules` (a hash) has msgpack [version, next_at or false] and the body of each by id; `due` (a sorted
-- set) has every id by the moment at which it is due next, infinity for never.

-- The version and the moment of a schedule, and its body; nothing if there is none.
local function unfold_schedule(value)
  if value then
    local rest, head = cmsgpack.unpack_one(value)
    return head[1], head[2], rest >= 0 and string.sub(value, rest + 1) or ''
  end
end

-- Four parts for each: id, version, moment or false, body; all false for those that there are not.
local function show_schedules(ids)
  local parts = {}
  if #ids > 0 then
    for index, value in ipairs(redis.call('HMGET', key('schedules'), unpack(ids))) do
      local version, at, body = unfold_schedule(value)
      parts[#parts + 1] = ids[index]
      parts[#parts + 1] = version or false
      parts[#parts + 1] = at and decimal(at) or false
      parts[#parts + 1] = body or false
    end
  end
  return parts
end
