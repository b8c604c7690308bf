-- include: prelude
-- Jobs are loaded once, changed as tables, and written back by `write_back` of writeback.lua.
--
-- A record is a msgpack array of the fields below, followed by the history: kind, moment, owner, token and reason of
-- each entry, one value after the other. A newer format appends fields; such a job is shown, but never changed, because
-- this version doesn't know what they mean. A completed or cancelled job is a key of its own with a TTL. Its value is
-- record, history, posting, checkpoint, progress and result, one after the other. False stands for a missing value.
--
-- This is the only list of the fields. The loader writes a line with "each field" once for each of them, and one with
-- "each KIND field" once for each of that kind.
--
-- fields: uuid text, name text, priority number, sequence number, place text, created number, modified number,
-- fields: state text, attempts number, token number, history_length number, key optional_text,
-- fields: max_attempts optional_number, run_at optional_number, owner optional_text, claim_id optional_text,
-- fields: expires optional_number, cancel flag, reason optional_text, error optional_text, checkpoint flag,
-- fields: progress flag, retained optional_number

local RECORD_HEAD = '\220\0\FIELD_COUNT'

-- `histories` has the packed history of each job, `before` the state in which it was found, `finished` the other parts
-- of a completed job, and `newer` is true for a job of a newer format.

-- The moment at which a job leaves the timer `delayed` or `leases`.
local function due_at(job)
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

-- Writing the head here saves a table of the fields, and a look at each of its keys.
local function encode(job)
  return RECORD_HEAD .. cmsgpack.pack(
    -- each field, by ",": job.FIELD or false
  )
end

-- The number of fields that a record claims to have; 0 if it is no record.
local function count_fields(value)
  local first, high, low = string.byte(value, 1, #RECORD_HEAD)
  return first == string.byte(RECORD_HEAD) and low and high * 256 + low or 0
end

local function is_text(value)
  return type(value) == 'string'
end

-- Read a record; false if it can't be read, and then the job is missing until an audit finds it. A field of a wrong
-- type would make a script fail halfway.
local function decode(uuid, value, history)
  local fields = count_fields(value)
  if fields < FIELD_COUNT then
    return false
  end
  local readable, rest,
    -- each field, by ",": its_FIELD
    = pcall(cmsgpack.unpack_limit, value, fields, #RECORD_HEAD)
  local is_sound = readable and its_uuid == uuid and STATE_INDEXES[its_state] and is_number(tonumber(its_place))
    -- each text field: and is_text(its_FIELD)
    -- each number field: and is_number(its_FIELD)
    -- each optional_text field: and (its_FIELD == false or is_text(its_FIELD))
    -- each optional_number field: and (its_FIELD == false or is_number(its_FIELD))
    -- each flag field: and (its_FIELD == false or its_FIELD == true)
  if not is_sound then
    return false
  end
  newer[uuid] = fields > FIELD_COUNT or nil
  histories[uuid] = history or rest >= 0 and string.sub(value, rest + 1) or ''
  before[uuid] = its_state
  return {
    -- each field, by ",": FIELD = its_FIELD or nil
  }
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
  local values = redis.call('HMGET', key('records'), unpack(missing))
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
      local readable, record, history, posting, checkpoint, progress, result = pcall(cmsgpack.unpack, values[index])
      if readable and is_text(record) and is_text(history) and is_text(posting)
        and is_text(checkpoint or '') and is_text(progress or '') and is_text(result or '') then
        jobs[uuid] = decode(uuid, record, history)
        finished[uuid] = {posting, checkpoint, progress, result}
      end
    end
  end
end

local function load(uuid)
  fetch({uuid})
  return jobs[uuid]
end

-- The first of these loaded jobs that has a newer format, and so must not be changed.
local function first_newer(uuids)
  for _, uuid in ipairs(uuids) do
    if newer[uuid] then
      return uuid
    end
  end
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
