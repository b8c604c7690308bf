-- include: board
-- Jobs as this script sees them. Each is loaded once and changed as a table; `flush` of _changes.lua writes it back.
--
-- A record is a msgpack array of always the same fields, followed by the lines of the history: kind, moment, owner,
-- token and reason of each, one after the other. A newer format has more fields behind these; such a job is shown, but
-- nothing of it is changed, since what it means is not known here. A job that is complete or cancelled is a key of its
-- own with a TTL, and holds one after the other: record, lines, posting, checkpoint, progress, result. False stands for
-- what there is not.

-- `histories` has the lines, `before` the state in which a job was found, `finished` the rest of what has ended, and
-- `newer` what is of a newer format.

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

-- How many fields a record says to have; 0 if it is none.
local function count_fields(value)
  local first, high, low = string.byte(value, 1, #RECORD_HEAD)
  return first == string.byte(RECORD_HEAD) and low and high * 256 + low or 0
end

local function is_text(value)
  return type(value) == 'string'
end

-- Without a wrong field, by which a script would break off.
local function is_sound(job)
  return ORDERS[job.state] and is_text(job.name) and is_text(job.place) and is_number(tonumber(job.place))
    and is_number(job.priority) and is_number(job.sequence) and is_number(job.created) and is_number(job.modified)
    and is_number(job.attempts) and is_number(job.token) and is_number(job.lines)
    and is_number(job.max_attempts or 0) and is_number(job.run_at or 0) and is_number(job.expires or 0)
    and is_number(job.retained or 0) and is_text(job.key or '') and is_text(job.owner or '')
    and is_text(job.claim_id or '') and is_text(job.reason or '') and is_text(job.error or '')
end

-- Take a record apart; false if it can't be read, and then there is no such job until an audit has found it.
local function unfold(uuid, value, lines)
  local fields = count_fields(value)
  if fields < RECORD_FIELDS then
    return false
  end
  local readable, rest, id, name, priority, sequence, place, created, modified, state, attempts, token, count, text,
    max_attempts, run_at, owner, claim_id, expires, cancel, reason, fault, checkpoint, progress, retained =
    pcall(cmsgpack.unpack_limit, value, fields, #RECORD_HEAD)
  if not readable or id ~= uuid or retained == nil then
    return false
  end
  newer[uuid] = fields > RECORD_FIELDS or nil
  local job = {
    uuid = uuid, name = name, priority = priority, sequence = sequence, place = place, created = created,
    modified = modified, state = state, attempts = attempts, token = token, lines = count, key = text or nil,
    max_attempts = max_attempts or nil, run_at = run_at or nil, owner = owner or nil, claim_id = claim_id or nil,
    expires = expires or nil, cancel = cancel or nil, reason = reason or nil, error = fault or nil,
    checkpoint = checkpoint or nil, progress = progress or nil, retained = retained or nil,
  }
  if not is_sound(job) then
    return false
  end
  histories[uuid] = lines or rest >= 0 and string.sub(value, rest + 1) or ''
  before[uuid] = state
  return job
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
      local readable, record, lines, posting, checkpoint, progress, result = pcall(cmsgpack.unpack, values[index])
      if readable and is_text(record) and is_text(lines) and is_text(posting)
        and is_text(checkpoint or '') and is_text(progress or '') and is_text(result or '') then
        jobs[uuid] = unfold(uuid, record, lines)
        finished[uuid] = {posting, checkpoint, progress, result}
      end
    end
  end
end

local function load(uuid)
  fetch({uuid})
  return jobs[uuid]
end

-- Which of these jobs is of a newer format, so that nothing may be done to it; they are loaded.
local function newer_of(uuids)
  for _, uuid in ipairs(uuids) do
    if newer[uuid] then
      return uuid
    end
  end
end

-- Load one job wherever it is.
local function recall(uuid)
  fetch({uuid})
  fetch_finished({uuid})
  return jobs[uuid]
end

-- Whether the history has a line of one of these kinds, under this token and by this owner if they are given.
local function has_line(job, kinds, token, who)
  local parts = {pcall(cmsgpack.unpack, histories[job.uuid])}
  for at = 2, parts[1] and #parts or 0, LINE_PARTS do
    if kinds[parts[at]] and (token == nil or parts[at + 3] == token) and (who == nil or parts[at + 2] == who) then
      return true
    end
  end
  return false
end
