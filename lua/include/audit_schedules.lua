-- include: schedules
-- include: entities
-- include: text
-- The part of an audit that checks schedules, participants, pauses and the counter. audit.lua defines `repair`,
-- `report`, `quarantine` and CHUNK.

local function check_schedule(id, value)
  if not is_utf8(id) then
    report('', 'the id of a schedule can not be read')
    if repair then
      quarantine('stored_schedules', id, value)
      redis.call('ZREM', key('due'), id)
    end
    return
  end
  local version, at, body = decode_schedule(value)
  if string.sub(version, 1, #UNREADABLE) == UNREADABLE then
    report('', 'the schedule ' .. id .. ' can not be read')
    if repair then
      -- Its bytes become the body of a schedule that is never due: so it is listed as unreadable, and can be removed.
      write_schedule(id, redis.sha1hex(version .. now_text), nil, body)
    end
    return
  end
  local score = redis.call('ZSCORE', key('due'), id)
  if not score or tonumber(score) ~= (at or math.huge) then
    report('', 'the schedule ' .. id .. ' is due at another moment than its own, or never')
    if repair then
      write_schedule(id, version, at, body)
    end
  end
end

local function check_schedules(cursor)
  local found = redis.call('HSCAN', key('stored_schedules'), cursor, 'COUNT', CHUNK)
  for index = 1, #found[2], 2 do
    check_schedule(found[2][index], found[2][index + 1])
  end
  return found[1] ~= '0' and found[1]
end

-- The cursor is a rank.
local function check_due(cursor)
  local ids = redis.call('ZRANGE', key('due'), cursor, cursor + CHUNK - 1)
  local following = cursor + #ids
  for index, value in ipairs(#ids > 0 and redis.call('HMGET', key('stored_schedules'), unpack(ids)) or {}) do
    if not value then
      report('', 'what is due is no schedule')
      if repair then
        following = following - redis.call('ZREM', key('due'), ids[index])
      end
    end
  end
  return #ids == CHUNK and decimal(following)
end

local function check_entities(cursor)
  local found = redis.call('HSCAN', key('seen'), cursor, 'COUNT', CHUNK)
  for index = 1, #found[2], 2 do
    local who, value = found[2][index], found[2][index + 1]
    if not decode_seen(value) or not string.find(who, '\n') or not is_utf8(who) then
      report('', 'when a participant was seen last can not be read')
      if repair then
        quarantine('seen', who, value)
        redis.call('HDEL', key('entities'), who)
      end
    end
  end
  return found[1] ~= '0' and found[1]
end

-- What is known of a pause is an entry as those of a history.
local function check_pauses(cursor)
  local found = redis.call('HSCAN', key('pauses'), cursor, 'COUNT', CHUNK)
  for index = 1, #found[2], 2 do
    local name, value = found[2][index], found[2][index + 1]
    if select('#', pcall(cmsgpack.unpack, value)) ~= 1 + ENTRY_PARTS then
      report('', 'who paused a name can not be read')
      if repair then
        quarantine('pauses', name, value)
      end
    end
  end
  return found[1] ~= '0' and found[1]
end

local function check_counter()
  local sequence = redis.call('HGET', key('counters'), 'sequence')
  if sequence and not string.find(sequence, '^%d+$') then
    report('', 'the last sequence can not be read')
    if repair then
      -- The present time in milliseconds is more than any sequence before, and far below the largest.
      redis.call('HSET', key('counters'), 'sequence', decimal(math.floor(now / 1000)))
    end
  end
  return false
end
