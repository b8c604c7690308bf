-- include: board
-- Jobs as this script sees them. Each is loaded once and changed as a table; `flush` of _changes.lua writes it back.
--
-- A record is a msgpack map, followed by the lines of the history, each a msgpack array. A job that is complete or
-- cancelled is a key of its own with a TTL: a msgpack array of record and lines, posting, checkpoint, progress, result.

local jobs = {}
local histories = {}
local before = {}
local finished = {}

local function place(job)
  return job.sequence - job.priority * PLACES_OF_PRIORITY
end

-- The moment for which a job is in `delayed` or in `leases`.
local function due(job)
  if job.state == 'CLAIMED' then
    return job.expires
  end
  return job.state == 'DELAYED' and job.run_at or nil
end

local function is_live(job)
  return job.state == 'UNCLAIMED' or job.state == 'CLAIMED' or job.state == 'DELAYED'
end

-- Completed jobs are remembered for longer than they are shown.
local function is_hidden(job)
  return job.state == 'COMPLETE' and job.retained ~= nil and job.retained <= now
end

local function unfold(uuid, value)
  local readable, rest, job = pcall(cmsgpack.unpack_one, value)
  if not readable or type(job) ~= 'table' or job.uuid ~= uuid or not ORDERS[job.state] then
    return false
  end
  histories[uuid] = rest >= 0 and string.sub(value, rest + 1) or ''
  return job
end

local function remember(job)
  before[job.uuid] = {state = job.state, place = place(job), due = due(job), token = job.token}
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
      local job = unfold(uuid, values[index])
      jobs[uuid] = job
      if job then
        remember(job)
      end
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
      local readable, parts = pcall(cmsgpack.unpack, values[index])
      local job = readable and type(parts) == 'table' and unfold(uuid, parts[1])
      if job then
        jobs[uuid] = job
        finished[uuid] = parts
        remember(job)
      end
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
  for _, line in ipairs({cmsgpack.unpack(histories[job.uuid])}) do
    if kinds[line[1]] and (token == nil or line[4] == token) and (who == nil or line[3] == who) then
      return true
    end
  end
  return false
end
