-- include: plain
-- include: prune_completed
-- The plain case of consume.lua: jobs of one name whose claims hold.

local function consume_plainly(ends)
  -- luacheck: ignore 311
  local uuids, owners, seen = {}, {}, {}
  for index, item in ipairs(ends) do
    local uuid = item[1]
    if seen[uuid] or not item[4] or item[4] == 0 then
      return
    end
    uuids[index], owners[index], seen[uuid] = uuid, key('owner', uuid), true
  end
  if is_busy('CONSUMED') or redis.call('EXISTS', unpack(owners)) < #owners then
    return
  end

  local values = redis.call('HMGET', key('records'), unpack(uuids))
  local name, records, places, retained, answers = nil, {}, {}, {}, {}
  for index, item in ipairs(ends) do
    local fields, rest,
      -- each field, by ",": its_FIELD
      = read_record(item[1], values[index])
    name = name or its_name
    if fields ~= FIELD_COUNT or rest < 0 or its_state ~= 'CLAIMED' or its_owner ~= item[2] or its_token ~= item[3]
      or its_name ~= name or its_key or its_checkpoint or its_progress or its_history_length >= HISTORY_LENGTH
      or its_expires and its_expires <= now then
      return
    end
    its_state, its_claim_id, its_expires, its_retained = 'COMPLETE', false, false, now + item[4]
    its_modified, its_history_length = now, its_history_length + 1
    records[index] = RECORD_HEAD .. cmsgpack.pack(
      -- each field, by ",": its_FIELD
    )
    values[index] = string.sub(values[index], rest + 1) .. cmsgpack.pack('CONSUMED', now, its_owner, its_token, false)
    places[2 * index - 1], places[2 * index] = its_place, its_uuid
    retained[2 * index - 1], retained[2 * index] = string.format('%.0f', its_retained), its_uuid .. name
  end
  local postings = redis.call('HMGET', key('listings'), unpack(uuids))
  for index, item in ipairs(ends) do
    local value = cmsgpack.pack(records[index], values[index], postings[index] or '', false, false, item[5] or false)
    local expires = string.format('%.0f', math.ceil((now + item[4] + RETRY_WINDOW) / 1000))
    redis.call('SET', key('done', item[1]), value, 'PXAT', expires)
    answers[index] = 'DONE'
  end
  redis.call('HDEL', key('records'), unpack(uuids))
  redis.call('HDEL', key('listings'), unpack(uuids))
  redis.call('ZREM', state_index('CLAIMED', name), unpack(uuids))
  redis.call('ZREM', key('leases'), unpack(uuids))
  redis.call('ZADD', state_index('COMPLETE', name), unpack(places))
  redis.call('ZADD', key('retained'), unpack(retained))
  redis.call('DEL', unpack(owners))
  prune_after(#ends)
  return {'OK', answers}
end
