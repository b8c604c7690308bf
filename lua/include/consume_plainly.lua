-- include: plain
-- include: prune_completed
-- include: record_parts
-- include: ttl
-- The plain case of consume.lua: jobs of one name whose claims hold. Of what jobs have to do with others, they may have
-- keys of their own, and be parents of one child each that still waits for others.

-- What msgpack writes before a text, by the length of the text in bytes.
local text_heads = setmetatable({}, {__index = function(known, length)
  local low, high = length % 256, math.floor(length / 256)
  known[length] = length < 32 and string.char(160 + length)
    or length < 256 and string.char(217, length)
    or length < 65536 and string.char(218, high, low)
    or string.char(219, math.floor(high / 65536), math.floor(high / 256) % 256, high % 256, low)
  return known[length]
end})

-- An end is this many values of the request: uuid, who, token, retention, result.
local END_PARTS = 5

-- The ties of a job that has nothing but keys of its own, and of one that has children besides: see record.lua.
local NO_OTHERS = string.rep('\194', 8)
local OWNER_TIES, PARENT_TIES = NO_OTHERS .. '\194\194\195', NO_OTHERS .. '\195\194\195'
-- A longer result goes to edges by the long path.
local MAX_PLAIN_RESULT = 4096

-- Worked out before anything is written, so it may raise an error about a record that can't be read. Returns the jobs'
-- name, for each what `done` has of it and what the indexes have, the members alone, the number of jobs of each claim
-- id, and the numbers of the jobs that have keys of their own, and of those that have children.
local function consume_records(ends, uuids, values, postings, retained)
  -- Of the first job of a run: its middle, what follows the head when it is complete, and the entry of the history.
  local function consumed(uuid, value, head_end, who, token)
    -- luacheck: ignore 311
    local fields, rest,
      -- each field, by ",": its_FIELD
      , its_lane, its_since, its_ties
      = read_record(uuid, value)
    local has_plain_ties = fields == TIED_COUNT and not its_lane and (its_ties == OWNER_TIES or its_ties == PARENT_TIES)
    if fields ~= FIELD_COUNT and not has_plain_ties or rest < 0 or its_state ~= 'CLAIMED'
      or its_owner ~= who or its_token ~= token or not its_claim_id or its_key or its_checkpoint or its_progress
      or its_history_length >= HISTORY_LENGTH or its_expires and its_expires <= now then
      return
    end
    local claim_id = its_claim_id
    its_state, its_claim_id, its_expires, its_retained = 'COMPLETE', false, false, retained
    its_modified, its_history_length = now, its_history_length + 1
    local record = RECORD_HEAD .. cmsgpack.pack(
      -- each field, by ",": its_FIELD
    )
    if has_plain_ties then
      record = TIED_HEAD .. string.sub(record, #RECORD_HEAD + 1) .. cmsgpack.pack(false, its_since, its_ties)
    end
    return string.sub(value, head_end + MOMENT_LENGTH + 1, rest), tail_of(record, value, head_end),
      cmsgpack.pack('CONSUMED', now, its_owner, its_token, false), claim_id, fields, its_ties
  end

  local name, finished, places, members, counts, owners, parents = nil, {}, {}, {}, {}, {}, {}
  local middle, tail, entry, claim_id, who, token, fields, ties
  for number, uuid in ipairs(uuids) do
    local value, at, pair = values[number], END_PARTS * (number - 1), 2 * number
    local head_end, its_name, its_place, its_sequence = read_head(uuid, value)
    name = name or its_name
    if its_name ~= name then
      return
    end
    if ends[at + 2] ~= who or ends[at + 3] ~= token or string.byte(value, #RECORD_HEAD) ~= fields
      or not has_middle(value, head_end, middle) then
      who, token = ends[at + 2], ends[at + 3]
      middle, tail, entry, claim_id, fields, ties = consumed(uuid, value, head_end, who, token)
    end
    if not tail then
      return
    end
    local history, posting, result = head_end + MOMENT_LENGTH + #middle, postings[number] or '', ends[at + 5]
    -- Record, history, posting, checkpoint, progress and result, as `archive` packs them.
    finished[number] = text_heads[head_end + #tail] .. string.sub(value, 1, head_end) .. tail
      .. text_heads[#value - history + #entry] .. string.sub(value, history + 1) .. entry
      .. text_heads[#posting] .. posting .. '\194\194' .. (result and cmsgpack.pack(result) or '\194')
    counts[claim_id] = (counts[claim_id] or 0) + 1
    if ties then
      owners[#owners + 1] = number
      parents[#parents + 1] = ties == PARENT_TIES and number or nil
    end
    members[number] = member_of(uuid, its_sequence)
    places[pair - 1], places[pair] = its_place, members[number]
  end
  return name, finished, places, members, counts, owners, parents
end

-- What `ends` of each child gets to know of its parents, the jobs with these numbers; nothing if a parent has more than
-- one child, or if one of the children may go on.
local function edges_of(parents, uuids, ends, name)
  local edges, marked = {}, redis.call('HMGET', key('marks'), unpack(uuids))
  local done = cmsgpack.pack('DONE', name)
  for _, number in ipairs(parents) do
    local uuid, result = uuids[number], ends[END_PARTS * number]
    local children = redis.call('ZRANGE', key('children', uuid), 0, 1)
    local child = children[1]
    if not child or children[2] or marked[number] or result and #result > MAX_PLAIN_RESULT then
      return
    end
    local list = edges[child] or {}
    edges[child], list[#list + 1] = list, uuid
    list[#list + 1] = done .. (result and text_heads[#result] .. result or '\194') .. '\194'
  end
  for child, list in pairs(edges) do
    local ended = redis.call('HLEN', key('ends', child)) + #list / 2
    if redis.call('ZCARD', key('parents', child)) <= ended or redis.call('HEXISTS', key('jobs'), child) == 0
      or redis.call('EXISTS', key('failed', child), key('gone', child)) > 0 then
      return
    end
  end
  return edges
end

-- Returns the answer, and how many of the jobs have keys of their own; nothing if the case is not plain.
local function consume_plainly(ends)
  local uuids, answers, seen, retention = {}, {}, {}, ends[4]
  for at = 1, #ends, END_PARTS do
    local uuid, number = ends[at], #uuids + 1
    if seen[uuid] or retention == 0 or ends[at + 3] ~= retention then
      return
    end
    uuids[number], answers[number], seen[uuid] = uuid, 'DONE', true
  end
  if is_due() or is_heard('CONSUMED') then
    return
  end

  local values = redis.call('HMGET', key('jobs'), unpack(uuids))
  local postings = redis.call('HMGET', key('listings'), unpack(uuids))
  local retained = now + retention
  local readable, name, finished, places, members, counts, owners, parents = pcall(
    consume_records, ends, uuids, values, postings, retained)
  if not readable or not name then
    return
  end
  local edges = #parents > 0 and edges_of(parents, uuids, ends, name)
  if #parents > 0 and not edges then
    return
  end
  local left = {}
  for claim_id, count in pairs(counts) do
    local owner = key('owner', claim_id)
    local known, limited = unpack(redis.call('MGET', owner, key('limited')))
    if not known or limited and string.find(limited, '\n' .. name .. '\n', 1, true)
      and redis.call('EXISTS', key('waiters')) == 1 then
      return
    end
    left[owner] = (tonumber(known) or 0) - count
  end
  local forgotten = expiry_of(retained + RETRY_WINDOW)
  for number, uuid in ipairs(uuids) do
    redis.call('SET', key('done', uuid), finished[number], 'PXAT', forgotten)
  end
  redis.call('HDEL', key('jobs'), unpack(uuids))
  redis.call('HDEL', key('listings'), unpack(uuids))
  redis.call('ZREM', state_index('CLAIMED', name), unpack(members))
  redis.call('ZREM', key('leases'), unpack(uuids))
  redis.call('ZADD', state_index('COMPLETE', name), unpack(places))
  redis.call('ZADD', key('completed'), string.format('%.0f', retained), field(name, table.concat(members)))
  if #owners > 0 then
    local list = {}
    for at, number in ipairs(owners) do
      list[2 * at - 1], list[2 * at] = string.format('%.0f', retained + RETRY_WINDOW), uuids[number]
    end
    redis.call('ZADD', key('own_keys'), unpack(list))
    for child, ended in pairs(edges or {}) do
      redis.call('HSET', key('ends', child), unpack(ended))
    end
  end
  for owner, count in pairs(left) do
    if count > 0 then
      redis.call('SET', owner, count, 'KEEPTTL')
    else
      redis.call('DEL', owner)
    end
  end
  prune_after(#uuids)
  return {'OK', answers}, #owners
end
