-- include: places
-- include: plain
-- include: record
-- include: ttl
-- The plain case of post_jobs.lua: new jobs of one name, without keys and delays. `sent` has the parts of all items,
-- one after the other. What it does not need is not included: to make tables and functions costs more than the
-- commands.

-- include: posting_parts

-- Returns the uuids if the case is plain but for the records, whether somebody waits for jobs, and whether names may be
-- paused.
local function plain_uuids(sent)
  local count, name, uuids, seen = #ARGV - 1, sent[2], {}, {}
  -- One look tells of most boards that they have nothing of what is asked for below.
  local unusual = {key('waiters'), key('paused'), key('leases'), key('delayed')}
  for index = 1, count do
    local from = POSTING_PARTS * (index - 1)
    local uuid = sent[from + 1]
    if sent[from + 2] ~= name or sent[from + 4] or sent[from + 6] or sent[from + 7] or seen[uuid] then
      return
    end
    uuids[index], seen[uuid], unusual[index + 4] = uuid, true, key('done', uuid)
  end
  local found = redis.call('EXISTS', unpack(unusual))
  local awaited = found > 0 and redis.call('EXISTS', unusual[1]) or 0
  if found > awaited and (is_due() or redis.call('EXISTS', unpack(unusual, 5)) > 0) then
    return
  end
  return uuids, awaited > 0, found > awaited
end

local function is_any_known(uuids)
  for _, known in ipairs(redis.call('HMGET', key('jobs'), unpack(uuids))) do
    if known then
      return true
    end
  end
end

-- Post them, unless one is known. With a claim request of [who, claim id, expiry], a single job is claimed at once.
-- Returns the answer, and the job if it is claimed, as in job_rows.lua.
local function post_plainly(sent, uuids, asked)
  -- luacheck: ignore 311
  local count, name = #uuids, sent[2]
  if count > 1 and is_any_known(uuids) then
    return
  end
  -- Each field as it is packed: false is the byte 194, and a small number is the byte of that number. To pack a value
  -- costs more than to join it.
  local pack = cmsgpack.pack
  if asked and not redis.call('SET', key('owner', asked[2]), 1, 'PXAT', expiry_of(now + asked[3]), 'NX') then
    -- This claim request has been served.
    asked = nil
  end
  local
    -- each field, by ",": its_FIELD
    =
    -- each field, by ",": '\194'
  its_name, its_created, its_state, its_attempts, its_token = pack(name), pack(now), '\169UNCLAIMED', '\0', '\0'
  its_modified, its_history_length = its_created, '\1'
  local entries = '\166POSTED' .. its_created .. '\194\194\194'
  if asked then
    its_state, its_attempts, its_token, its_history_length = '\167CLAIMED', '\1', its_created, '\2'
    its_owner, its_claim_id, its_expires = pack(asked[1]), pack(asked[2]), pack(now + asked[3])
    entries = entries .. '\167CLAIMED' .. its_created .. its_owner .. its_token .. '\194'
  end
  local sequence = redis.call('HINCRBY', key('counters'), 'sequence', count) - count
  -- With room for one job: to make room later costs as much as a small command.
  local records, postings, places, best, head = {0, 0}, {0, 0}, {0, 0}, 0, nil
  local last, place
  for index = 1, count do
    local at, from = 2 * index, POSTING_PARTS * (index - 1)
    local uuid, priority = sent[from + 1], sent[from + 3]
    sequence = sequence + 1
    if priority ~= last then
      last, place = priority, place_of(now, priority)
      its_priority, its_place = pack(priority), pack(place)
    end
    if priority > best then
      best, head = priority, place
    end
    its_uuid, its_sequence = pack(uuid), pack(sequence)
    -- each posted field: its_FIELD = pack(sent[from + 7 + NUMBER] or false)
    records[at - 1], records[at] = uuid, RECORD_HEAD
      -- each field: .. its_FIELD
      .. entries
    postings[at - 1], postings[at] = uuid, ARGV[index + 1]
    places[at - 1], places[at] = place, member_of(uuid, sequence)
  end
  if count > 1 then
    redis.call('HSET', key('jobs'), unpack(records))
  elseif redis.call('HSETNX', key('jobs'), records[1], records[2]) == 0 then
    redis.call('HINCRBY', key('counters'), 'sequence', -1)
    if asked then
      redis.call('DEL', key('owner', asked[2]))
    end
    return
  end
  redis.call('HSET', key('listings'), unpack(postings))
  if asked then
    redis.call('ZADD', key('claimed', name), unpack(places))
    redis.call('ZADD', key('leases'), string.format('%.0f', now + asked[3]), uuids[1])
    redis.call('ZADD', key('names'), 'NX', '0', name)
    return {now, sequence}, {string.sub(records[2], 1, -#entries - 1), '', ARGV[2]}
  end
  redis.call('ZADD', key('ready', name), unpack(places))
  if redis.call('ZADD', key('heads'), 'LT', head, name) > 0 then
    -- The name of a head is known already.
    redis.call('ZADD', key('names'), 'NX', '0', name)
  end
  return {now, sequence}
end
