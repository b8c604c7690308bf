-- include: heads
-- include: plain
-- include: ready_queue
-- The plain case of claim_next.lua: the best jobs are of one name, and most were never claimed.

local function claim_plainly(request)
  local who, claim_id, expiry, limit, names = request[1], request[2], request[3], request[4], request[5]
  -- luacheck: ignore 311
  if not expiry or expiry < SOON or is_busy('CLAIMED') then
    return
  end
  local wanted = ready_names(names, limit)
  if #wanted == 0 then
    return {'OK', {}, false}
  end
  local name, index = wanted[1], state_index('UNCLAIMED', wanted[1])
  local uuids = #wanted > 1 and limit > 1 and {} or redis.call('ZRANGE', index, 0, limit - 1)
  if #uuids == 0 then
    return
  end

  local values = redis.call('HMGET', key('records'), unpack(uuids))
  local lease, rows, records, places, leases = string.format('%.0f', now + expiry), {}, {}, {}, {}
  for number, uuid in ipairs(uuids) do
    local fields, rest,
      -- each field, by ",": its_FIELD
      = read_record(uuid, values[number])
    if fields ~= FIELD_COUNT or rest < 0 or its_state ~= 'UNCLAIMED' or its_name ~= name or its_cancel
      or its_checkpoint or its_progress or its_history_length >= HISTORY_LENGTH then
      return
    end
    its_state, its_attempts, its_token = 'CLAIMED', its_attempts + 1, math.max(its_token + 1, now)
    its_owner, its_claim_id, its_expires = who, claim_id, now + expiry
    its_modified, its_history_length = now, its_history_length + 1
    local record, at = RECORD_HEAD .. cmsgpack.pack(
      -- each field, by ",": its_FIELD
    ), 2 * number
    rows[5 * number - 4] = record
    records[at - 1], records[at] = uuid, record .. string.sub(values[number], rest + 1)
      .. cmsgpack.pack('CLAIMED', now, who, its_token, false)
    places[at - 1], places[at] = its_place, uuid
    leases[at - 1], leases[at] = lease, uuid
  end
  -- The TTL is up to a millisecond longer than the claim.
  local ttl = string.format('%.0f', math.ceil((now + expiry) / 1000))
  local postings = redis.call('HMGET', key('listings'), unpack(uuids))
  for number, uuid in ipairs(uuids) do
    local at = 5 * number
    rows[at - 3], rows[at - 2], rows[at - 1], rows[at] = postings[number] or '', false, false, false
    redis.call('SET', key('owner', uuid), who, 'PXAT', ttl)
  end
  redis.call('HSET', key('records'), unpack(records))
  redis.call('ZREM', index, unpack(uuids))
  redis.call('ZADD', state_index('CLAIMED', name), unpack(places))
  redis.call('ZADD', key('leases'), unpack(leases))
  set_head(name)
  return {'OK', rows, false}
end
