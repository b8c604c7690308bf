-- include: audit_records
-- The part of an audit that checks what leads to records: lists, timers and keys.

-- How many bytes of completed jobs are read at most, beside one.
local MAX_BYTES = 524288

-- Return the records of each second of these, from the first or the second on.
local function records_of(found, first)
  local uuids = {}
  for index = first, #found, 2 do
    uuids[#uuids + 1] = found[index]
  end
  return #uuids > 0 and redis.call('HMGET', RECORDS, unpack(uuids)) or {}
end

-- Whether a record is of this job, state and name. Whether it can be read at all was checked with the records.
local function is_of(uuid, value, state, name)
  local is_readable, _,
    -- each field, by ",": its_FIELD
    = pcall(cmsgpack.unpack_limit, value, FIELD_COUNT, #RECORD_HEAD)
  return is_readable and its_uuid == uuid and its_state == state and its_name == name
end

-- Whether a key leads to a live job that has it.
local function leads_here(text, uuid, value)
  local fields, _,
    -- each field, by ",": its_FIELD
    = read_record(uuid, value)
  return fields and (fields > FIELD_COUNT or LIVE[its_state] and its_key and field(its_name, its_key) == text)
end

-- Whether a completed job is of this name; and how many bytes were read.
local function is_completed(uuid, name)
  local value = redis.call('MGET', key('done', uuid))[1]
  if not value then
    -- It has expired, and stays in the list until it is pruned.
    return true, 0
  end
  local is_readable, _, record = pcall(cmsgpack.unpack_limit, value, 1, 0)
  return is_readable and is_text(record) and is_of(uuid, record, 'COMPLETE', name), #value
end

-- Whether an index may have this member. Completed jobs expire, and stay in their index until they are pruned.
local function belongs(uuid, state, name)
  local job = load_any(uuid)
  return newer[uuid] or state == 'COMPLETE' and not job or job and job.state == state and job.name == name
end

-- Return from where to go on, or false; and how many members were checked.
local function check_index(state, name, after)
  local found = redis.call(
    'ZRANGEBYSCORE', state_index(state, name), after, '+inf', 'WITHSCORES', 'LIMIT', 0, CHUNK)
  local values, bytes = records_of(found, 1), 0
  for index = 1, #found, 2 do
    local uuid, value = found[index], values[(index + 1) / 2]
    local is_member, size = is_of(uuid, value, state, name), 0
    if state == 'COMPLETE' and not value then
      is_member, size = is_completed(uuid, name)
    end
    if not is_member and not belongs(uuid, state, name) then
      report('', 'the list of ' .. state .. ' jobs holds another one: ' .. uuid)
      if repair then
        redis.call('ZREM', state_index(state, name), uuid)
      end
    end
    bytes = bytes + size
    if bytes > MAX_BYTES then
      return '(' .. found[index + 1], CHUNK
    end
  end
  return #found == 2 * CHUNK and '(' .. found[#found], #found / 2
end

local function check_head(name)
  local head = redis.call('ZRANGE', state_index('UNCLAIMED', name), 0, 0, 'WITHSCORES')[2] or false
  if head ~= redis.call('ZSCORE', key('heads'), name) then
    report('', 'the best job of ' .. name .. ' is not known as such')
    if repair then
      set_head(name)
    end
  end
end

-- One index of one name; the cursor is "place state name".
local function check_next_index(cursor)
  local after, number, name = string.match(cursor, '^(%S+) (%d) (.*)$')
  if not after then
    after, number, name = '-inf', 1, redis.call('ZRANGE', key('names'), 0, 0)[1]
    if not name then
      return false, 0
    end
  end
  number = tonumber(number)
  local further, checked = check_index(STATES[number], name, after)
  if further then
    return further .. ' ' .. number .. ' ' .. name, checked
  end
  if number < #STATES then
    return '-inf ' .. (number + 1) .. ' ' .. name, checked
  end
  check_head(name)
  -- If somebody has set other scores than 0, ZRANGEBYLEX could return names in a circle.
  local following = redis.call('ZRANGEBYLEX', key('names'), '(' .. name, '+', 'LIMIT', 0, 1)[1]
  return following and comes_after(following, name) and '-inf 1 ' .. following, checked
end

-- Many small indexes in one call: a board may have a name for each job.
local function check_indexes(cursor)
  local members = 0
  for _ = 1, CHUNK do
    local further, checked = check_next_index(cursor)
    cursor, members = further, members + checked
    if not cursor or members >= CHUNK then
      break
    end
  end
  return cursor
end

-- The cursor is a timer and a rank from its end: what is due, and a claim that is renewed, leave at the beginning.
local function check_timers(cursor)
  local state, rank = string.match(cursor, '^(%a+) (%d+)$')
  state, rank = state or 'CLAIMED', tonumber(rank or 0)
  local timer = TIMER_KEYS[state]
  local uuids = redis.call('ZRANGE', timer, -rank - CHUNK, -rank - 1)
  for index, value in ipairs(#uuids > 0 and redis.call('HMGET', RECORDS, unpack(uuids)) or {}) do
    if not value then
      report('', 'a timer is of a job that is not on the board: ' .. uuids[index])
      rank = rank - (repair and redis.call('ZREM', timer, uuids[index]) or 0)
    end
  end
  if #uuids == CHUNK then
    return state .. ' ' .. decimal(rank + CHUNK)
  end
  return state == 'CLAIMED' and 'DELAYED 0'
end

local function check_keys(cursor)
  local found = redis.call('HSCAN', key('keys'), cursor, 'COUNT', CHUNK)
  local values = records_of(found[2], 2)
  for index = 1, #found[2], 2 do
    local text, uuid = found[2][index], found[2][index + 1]
    if not leads_here(text, uuid, values[(index + 1) / 2]) then
      report('', 'a key leads to a job that is not live, or does not have it: ' .. uuid)
      if repair then
        redis.call('HDEL', key('keys'), text)
      end
    end
  end
  return found[1] ~= '0' and found[1]
end
