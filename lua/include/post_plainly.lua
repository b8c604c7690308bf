-- include: plain
-- include: waiters
-- The plain case of post_jobs.lua: new jobs of one name, without keys and delays.

local function post_plainly(items)
  -- luacheck: ignore 311
  local name, uuids, seen, done = items[1][2], {}, {}, {}
  for index, item in ipairs(items) do
    local uuid = item[1]
    if item[2] ~= name or item[4] or item[6] or item[7] or seen[uuid] then
      return
    end
    uuids[index], seen[uuid], done[index] = uuid, true, key('done', uuid)
  end
  if is_busy('POSTED') or redis.call('EXISTS', unpack(done)) > 0 then
    return
  end
  for _, known in ipairs(redis.call('HMGET', key('records'), unpack(uuids))) do
    if known then
      return
    end
  end

  local count = #items
  local
    -- each field, by ",": its_FIELD
    =
    -- each field, by ",": false
  its_name, its_created, its_modified, its_state = name, now, now, 'UNCLAIMED'
  its_attempts, its_token, its_history_length = 0, 0, 1
  its_sequence = redis.call('HINCRBY', key('counters'), 'sequence', count) - count
  local entry = cmsgpack.pack('POSTED', now, false, false, false)
  local records, postings, places, sequences, best = {}, {}, {}, {}, math.huge
  for index, item in ipairs(items) do
    its_uuid, its_priority, its_sequence, its_max_attempts = item[1], item[3], its_sequence + 1, item[8] or false
    local spot, at = its_sequence - its_priority * PLACES_OF_PRIORITY, 2 * index
    its_place, best = string.format('%.0f', spot), math.min(best, spot)
    records[at - 1], records[at] = its_uuid, RECORD_HEAD .. cmsgpack.pack(
      -- each field, by ",": its_FIELD
    ) .. entry
    postings[at - 1], postings[at] = its_uuid, ARGV[index + 1]
    places[at - 1], places[at] = its_place, its_uuid
    sequences[index] = its_sequence
  end
  redis.call('HSET', key('records'), unpack(records))
  redis.call('HSET', key('listings'), unpack(postings))
  redis.call('ZADD', state_index('UNCLAIMED', name), unpack(places))
  redis.call('ZADD', key('names'), 'NX', '0', name)
  redis.call('ZADD', key('heads'), 'LT', string.format('%.0f', best), name)
  wake_waiters({[name] = count}, {})
  return {'OK', now, sequences, {}}
end
