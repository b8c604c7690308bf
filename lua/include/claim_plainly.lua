-- include: heads
-- include: lane_scores
-- include: plain
-- include: ready_queue
-- include: record_parts
-- include: ttl
-- The plain case of claim_next.lua: the best jobs are of one name, and most were never claimed. They may have lanes,
-- which a claim never looks at.

-- Worked out before anything is written, so it may raise an error about a record that can't be read. Returns what the
-- client gets but the postings, what `jobs` has of each, what the indexes have, and what those of lanes have.
local function claim_records(members, uuids, values, name, who, claim_id, expires)
  -- Of the first job of a run: its middle, what follows the head when it is claimed, the entry of the history, the last
  -- byte of its number of fields, and its lane.
  local function claimed(uuid, value, head_end)
    -- luacheck: ignore 311
    local fields, rest,
      -- each field, by ",": its_FIELD
      , its_lane, its_since, its_ties
      = read_record(uuid, value)
    if not fields or is_newer(fields) or rest < 0 or its_state ~= 'UNCLAIMED' or its_cancel
      or its_checkpoint or its_progress or its_history_length >= HISTORY_LENGTH
      -- It has to begin by a moment, which the timer `delayed` has.
      or its_ties and string.byte(its_ties) ~= 194 then
      return
    end
    its_state, its_attempts, its_token = 'CLAIMED', its_attempts + 1, math.max(its_token + 1, now)
    its_owner, its_claim_id, its_expires = who, claim_id, expires
    its_modified, its_history_length = now, its_history_length + 1
    local record = RECORD_HEAD .. cmsgpack.pack(
      -- each field, by ",": its_FIELD
    )
    if its_ties then
      record = TIED_HEAD .. string.sub(record, #RECORD_HEAD + 1) .. cmsgpack.pack(its_lane, its_since, its_ties)
    elseif its_lane then
      record = LANED_HEAD .. string.sub(record, #RECORD_HEAD + 1) .. cmsgpack.pack(its_lane, its_since)
    end
    return string.sub(value, head_end + MOMENT_LENGTH + 1, rest), tail_of(record, value, head_end),
      cmsgpack.pack('CLAIMED', now, who, its_token, false), fields, its_lane
  end

  local lease, rows, records, places, leases, lanes = string.format('%.0f', expires), {}, {}, {}, {}, nil
  local middle, tail, entry, fields, lane
  for number, uuid in ipairs(uuids) do
    local value = values[number]
    local head_end, its_name, its_place = read_head(uuid, value)
    if its_name ~= name then
      return
    end
    if string.byte(value, #RECORD_HEAD) ~= fields or not has_middle(value, head_end, middle) then
      middle, tail, entry, fields, lane = claimed(uuid, value, head_end)
    end
    if not tail then
      return
    end
    local head, at = string.sub(value, 1, head_end), 2 * number
    rows[3 * number - 2], rows[3 * number - 1] = head, tail
    records[at - 1] = uuid
    records[at] = head .. tail .. string.sub(value, head_end + MOMENT_LENGTH + #middle + 1) .. entry
    places[at - 1], places[at] = its_place, members[number]
    leases[at - 1], leases[at] = lease, uuid
    if lane then
      lanes = lanes or {}
      local held = lanes[lane] or {}
      lanes[lane], held[#held + 1], held[#held + 2] = held, CLAIMED_SCORE, members[number]
    end
  end
  return rows, records, places, leases, lanes
end

-- Whether a job that waits for its lane could be claimed in exchange for another one of the lane.
local function may_exchange()
  return redis.call('EXISTS', key('blocked_lanes')) == 1
end

local function claim_plainly(request)
  local who, claim_id, expiry, limit, names = request[1], request[2], request[3], request[4], request[5]
  if not expiry or expiry < SOON or is_due() or is_heard('CLAIMED') then
    return
  end
  local wanted, rooms = ready_names(names, limit)
  if #wanted == 0 then
    return not may_exchange() and {'OK', {}, false} or nil
  end
  local name, index = wanted[1], state_index('UNCLAIMED', wanted[1])
  local most = math.min(limit, rooms[name] or limit)
  local members = #wanted > 1 and limit > 1 and {} or redis.call('ZRANGE', index, 0, most - 1)
  if #members == 0 or #members < limit and may_exchange() then
    return
  end
  local uuids = uuids_of(members)

  local values, expires = redis.call('HMGET', key('jobs'), unpack(uuids)), now + expiry
  local readable, rows, records, places, leases, lanes = pcall(
    claim_records, members, uuids, values, name, who, claim_id, expires)
  if not readable or not rows then
    return
  end
  if not redis.call('SET', key('owner', claim_id), #uuids, 'PXAT', expiry_of(expires), 'NX') then
    return
  end
  local postings = redis.call('HMGET', key('listings'), unpack(uuids))
  for number in ipairs(uuids) do
    rows[3 * number] = postings[number] or ''
  end
  redis.call('HSET', key('jobs'), unpack(records))
  redis.call('ZREM', index, unpack(members))
  redis.call('ZADD', state_index('CLAIMED', name), unpack(places))
  redis.call('ZADD', key('leases'), unpack(leases))
  for lane, held in pairs(lanes or {}) do
    redis.call('ZADD', key('held', lane), unpack(held))
  end
  set_head(name)
  return {'OK', rows, false}
end
