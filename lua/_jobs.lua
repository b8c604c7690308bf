-- include: board
-- Jobs as this script sees them. Each is loaded once and changed as a table; `flush` of _changes.lua writes it back.
--
-- A record is a msgpack array of always the same fields, followed by the lines of the history: kind, moment, owner,
-- token and reason of each, one after the other. A job that is complete or cancelled is a key of its own with a TTL,
-- and holds one after the other: record, lines, posting, checkpoint, progress, result. False stands for what there is
-- not.

-- `histories` has the lines, `before` the state in which a job was found, and `finished` the rest of what has ended.

-- The moment for which a job is in `delayed` or in `leases`.
local function due(job)
  if job.state == 'CLAIMED' then
    return job.expires
  end
  return job.state == 'DELAYED' and job.run_at or nil
end

local function is_live(job)
  return LIVE[job.state]
end

-- Completed jobs are remembered for longer than they are shown.
local function is_hidden(job)
  return job.state == 'COMPLETE' and job.retained ~= nil and job.retained <= now
end

-- Make a job's record; with its head written here, no table of its fields has to be made and looked through.
local function fold(job)
  return RECORD_HEAD .. cmsgpack.pack(
    job.uuid, job.name, job.priority, job.sequence, job.place, job.created, job.modified, job.state, job.attempts,
    job.token, job.lines, job.key or false, job.max_attempts or false, job.run_at or false, job.owner or false,
    job.claim_id or false, job.expires or false, job.cancel or false, job.reason or false, job.error or false,
    job.checkpoint or false, job.progress or false, job.retained or false)
end

-- Take a record apart; false if it can't be read, and then there is no such job until an audit has found it.
local function unfold(uuid, value, lines)
  if string.sub(value, 1, #RECORD_HEAD) ~= RECORD_HEAD then
    return false
  end
  local readable, rest, id, name, priority, sequence, place, created, modified, state, attempts, token, count, text,
    max_attempts, run_at, owner, claim_id, expires, cancel, reason, fault, checkpoint, progress, retained =
    pcall(cmsgpack.unpack_limit, value, RECORD_FIELDS, #RECORD_HEAD)
  if not readable or id ~= uuid or not ORDERS[state] or retained == nil then
    return false
  end
  histories[uuid] = lines or rest >= 0 and string.sub(value, rest + 1) or ''
  before[uuid] = state
  return {
    uuid = uuid, name = name, priority = priority, sequence = sequence, place = place, created = created,
    modified = modified, state = state, attempts = attempts, token = token, lines = count, key = text or nil,
    max_attempts = max_attempts or nil, run_at = run_at or nil, owner = owner or nil, claim_id = claim_id or nil,
    expires = expires or nil, cancel = cancel or nil, reason = reason or nil, error = fault or nil,
    checkpoint = checkpoint or nil, progress = progress or nil, retained = retained or nil,
  }
end

-- Load what is not loaded yet, in one call.
local function fetch(uuids)
  local missing = {}
  for _, uuid in ipairs(uuids) do
    if jobs[uuid] == nil then
      jobs[uuid] = false
      missing[#missing + 1] = uuid
    end
  end
  if #missing == 0 then
    return
  end
  local values = redis.call('HMGET', key('records'), unpack(missing))
  for index, uuid in ipairs(missing) do
    if values[index] then
      jobs[uuid] = unfold(uuid, values[index])
    end
  end
end

-- Load those that are not on the board any more, but still remembered.
local function fetch_finished(uuids)
  local missing, keys = {}, {}
  for _, uuid in ipairs(uuids) do
    if not jobs[uuid] then
      missing[#missing + 1] = uuid
      keys[#keys + 1] = key('done', uuid)
    end
  end
  if #missing == 0 then
    return
  end
  local values = redis.call('MGET', unpack(keys))
  for index, uuid in ipairs(missing) do
    if values[index] then
      local parts = {pcall(cmsgpack.unpack, values[index])}
      jobs[uuid] = parts[1] and unfold(uuid, parts[2], parts[3])
      finished[uuid] = {unpack(parts, 4)}
    end
  end
end

local function load(uuid)
  fetch({uuid})
  return jobs[uuid]
end

-- Load one job wherever it is.
local function recall(uuid)
  fetch({uuid})
  fetch_finished({uuid})
  return jobs[uuid]
end

-- Whether the history has a line of one of these kinds, under this token and by this owner if they are given.
local function has_line(job, kinds, token, who)
  local parts = {cmsgpack.unpack(histories[job.uuid])}
  for at = 1, #parts, LINE_PARTS do
    if kinds[parts[at]] and (token == nil or parts[at + 3] == token) and (who == nil or parts[at + 2] == who) then
      return true
    end
  end
  return false
end
