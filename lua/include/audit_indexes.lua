-- include: audit_records
-- include: rank_after
-- The part of an audit that checks what leads to records: lists, timers and keys.

-- A function of its own, since a function of Lua has at most 200 variables.
local check_indexes, check_timers, check_keys = (function()
  -- How many bytes of completed jobs are read at most, beside one.
  local MAX_BYTES = 524288

  -- Whether a record is of the job of this member, and of this state and name. Whether it can be read at all was
  -- checked with the records.
  local function is_of(member, value, state, name)
    local is_readable, _,
      -- each field, by ",": its_FIELD
      = pcall(cmsgpack.unpack_limit, value, FIELD_COUNT, #RECORD_HEAD)
    return is_readable and its_state == state and its_name == name and is_number(its_sequence)
      and member_of(tostring(its_uuid), its_sequence) == member
  end

  -- Whether a key leads to a live job that has it.
  local function leads_here(text, uuid, value)
    local fields, _,
      -- each field, by ",": its_FIELD
      = read_record(uuid, value)
    return fields and (is_newer(fields) or LIVE[its_state] and its_key and field(its_name, its_key) == text)
  end

  -- Whether a completed job is of this name; and how many bytes were read.
  local function is_completed(member, uuid, name)
    local value = redis.call('MGET', key('done', uuid))[1]
    if not value then
      -- It has expired, and stays in the list until it is pruned.
      return true, 0
    end
    local is_readable, _, record = pcall(cmsgpack.unpack_limit, value, 1, 0)
    return is_readable and is_text(record) and is_of(member, record, 'COMPLETE', name), #value
  end

  -- Whether an index may have this member. Completed jobs expire, and stay in their index until they are pruned.
  local function belongs(member, uuid, state, name)
    local job = load_any(uuid)
    return newer[uuid] or state == 'COMPLETE' and not job
      or job and job.state == state and job.name == name and member_of(uuid, job.sequence) == member
  end

  -- Return after which member to go on, or false; and how many were checked.
  local function check_index(state, name, score, member)
    local index, bytes = state_index(state, name), 0
    local rank = score and rank_after(index, score, member) or 0
    local members = redis.call('ZRANGE', index, rank, rank + CHUNK - 1)
    local uuids = uuids_of(members)
    local values = #uuids > 0 and redis.call('HMGET', RECORDS, unpack(uuids)) or {}
    for at, uuid in ipairs(uuids) do
      local last, size = members[at], 0
      local is_member = is_of(last, values[at], state, name)
      if state == 'COMPLETE' and not values[at] then
        is_member, size = is_completed(last, uuid, name)
      end
      bytes = bytes + size
      local is_last = bytes > MAX_BYTES or at == CHUNK
      local place = is_last and {redis.call('ZSCORE', index, last), last}
      if not is_member and not belongs(last, uuid, state, name) then
        report('', 'the list of ' .. state .. ' jobs holds another one: ' .. uuid)
        if repair then
          redis.call('ZREM', index, last)
        end
      end
      if is_last then
        return place, CHUNK
      end
    end
    return false, #members
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

  -- One index of one name; the cursor is the state, the name, and score and member of the last one that was checked.
  local function check_next_index(cursor)
    local number, name, score, member = cmsgpack.unpack(cursor)
    if not name then
      number, name = 1, redis.call('ZRANGE', key('names'), 0, 0)[1]
      if not name then
        return false, 0
      end
    end
    local last, checked = check_index(STATES[number], name, score, member)
    if last then
      return cmsgpack.pack(number, name, unpack(last)), checked
    end
    if number < #STATES then
      return cmsgpack.pack(number + 1, name), checked
    end
    check_head(name)
    -- If somebody has set other scores than 0, ZRANGEBYLEX could return names in a circle.
    local following = redis.call('ZRANGEBYLEX', key('names'), '(' .. name, '+', 'LIMIT', 0, 1)[1]
    return following and comes_after(following, name) and cmsgpack.pack(1, following), checked
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
      -- A line break begins the timer of a lane, a tabulator that of a mark.
      local first = string.byte(uuids[index])
      if not value and first ~= 10 and first ~= 9 then
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
    local uuids = {}
    for index = 2, #found[2], 2 do
      uuids[#uuids + 1] = found[2][index]
    end
    local values = #uuids > 0 and redis.call('HMGET', RECORDS, unpack(uuids)) or {}
    for number, uuid in ipairs(uuids) do
      local text = found[2][2 * number - 1]
      if not leads_here(text, uuid, values[number]) then
        report('', 'a key leads to a job that is not live, or does not have it: ' .. uuid)
        if repair then
          redis.call('HDEL', key('keys'), text)
        end
      end
    end
    return found[1] ~= '0' and found[1]
  end

  return check_indexes, check_timers, check_keys
end)()
