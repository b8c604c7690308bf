-- include: read_record
-- include: prelude
-- Jobs are loaded once, changed as tables, and written back by `write_back` of writeback.lua.
--
-- `histories` has the packed history of each job, `before` the state in which it was found, `finished` the other parts
-- of a completed job, and `newer` is true for a job of a newer format.

-- The moment at which a job leaves the timer `delayed` or `leases`.
local function due_at(job)
  local state = job.state
  if state == 'CLAIMED' then
    return job.expires
  end
  local moment = (state == 'DELAYED' or state == 'BLOCKED' and job.signal) and job.run_at or nil
  if job.start_by and job.token == 0 and LIVE[state] then
    return math.min(moment or job.start_by, job.start_by)
  end
  return moment
end

local function is_live(job)
  return LIVE[job.state]
end

-- In which set of its lane a job is; in none while it waits for a parent or a signal.
local function lane_set_of(job)
  local state = job.state
  if state == 'BLOCKED' and (job.has_parents or job.signal) then
    return nil
  end
  return LANE_SETS[state] or state == 'DELAYED' and job.token ~= 0 and 'retrying' or nil
end

-- Completed jobs are remembered for longer than they are shown.
local function is_hidden(job)
  return job.state == 'COMPLETE' and job.retained ~= nil and job.retained <= now
end

-- Writing the head here saves a table of the fields, and a look at each of its keys.
local function encode(job)
  local fields = cmsgpack.pack(
    -- each field, by ",": job.FIELD or false
  )
  if job.is_tied then
    return TIED_HEAD .. fields .. cmsgpack.pack(job.lane or false, job.since or false, cmsgpack.pack(
      -- each tie, by ",": job.TIE or false
    ))
  end
  return job.lane and LANED_HEAD .. fields .. cmsgpack.pack(job.lane, job.since or false) or RECORD_HEAD .. fields
end

local function add_ties(job, ties)
  job.is_tied = true
  local
    -- each tie, by ",": its_TIE
    = cmsgpack.unpack(ties)
  -- each tie: job.TIE = its_TIE or nil
  job.had_keys = job.has_keys
end

local function is_text(value)
  return type(value) == 'string'
end

-- Read a record into a table; false if it can't be read, and then the job is missing until an audit finds it.
local function decode(uuid, value, history)
  local fields, rest,
    -- each field, by ",": its_FIELD
    , its_lane, its_since, its_ties
    = read_record(uuid, value)
  if not fields then
    return false
  end
  newer[uuid] = is_newer(fields) or nil
  histories[uuid] = history or rest >= 0 and string.sub(value, rest + 1) or ''
  before[uuid] = its_state
  local is_laned = fields == LANED_COUNT or fields == TIED_COUNT
  local job = {
    -- each field, by ",": FIELD = its_FIELD or nil
    , lane = is_laned and its_lane or nil, since = is_laned and its_since or nil
  }
  if fields == TIED_COUNT then
    add_ties(job, its_ties)
  end
  if job.lane then
    has_lanes, lane_sets[uuid] = true, lane_set_of(job)
  end
  return job
end

-- Load the jobs that are not loaded yet, in one call.
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
  local values = redis.call('HMGET', key('jobs'), unpack(missing))
  for index, uuid in ipairs(missing) do
    if values[index] then
      jobs[uuid] = decode(uuid, values[index])
    end
  end
end

-- Load those of these jobs that have left the board, but are still remembered.
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
      local readable, record, history, posting, checkpoint, progress, result, is_cut = pcall(
        cmsgpack.unpack, values[index])
      if readable and is_text(record) and is_text(history) and is_text(posting)
        and is_text(checkpoint or '') and is_text(progress or '') and is_text(result or '') then
        jobs[uuid] = decode(uuid, record, history)
        finished[uuid] = {posting, checkpoint, progress, result, is_cut}
      end
    end
  end
end

local function load(uuid)
  fetch({uuid})
  return jobs[uuid]
end

-- Load one job, on the board or finished.
local function load_any(uuid)
  fetch({uuid})
  fetch_finished({uuid})
  return jobs[uuid]
end

-- Whether the history has an entry of one of these kinds; with this token and owner, if they are given.
local function has_entry(job, kinds, token, who)
  local parts = {pcall(cmsgpack.unpack, histories[job.uuid])}
  for at = 2, parts[1] and #parts or 0, ENTRY_PARTS do
    if kinds[parts[at]] and (token == nil or parts[at + 3] == token) and (who == nil or parts[at + 2] == who) then
      return true
    end
  end
  return false
end
