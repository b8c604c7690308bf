-- include: read_record
-- include: audit_edges
-- The part of an audit that checks each record, and that the job is where it says. audit.lua defines `repair`,
-- `report`, `reindex` and CHUNK. Whether a job is also listed elsewhere is seen there: see audit_indexes.lua.

local LISTS = {}
for state in pairs(STATE_INDEXES) do
  LISTS[state] = state_index(state, '')
end
local LISTINGS, RECORDS, KEYS_OF_JOBS = key('listings'), key('jobs'), key('keys')
local TIMER_KEYS = {CLAIMED = key('leases'), DELAYED = key('delayed')}
local has_timers = {}
for state, timer in pairs(TIMER_KEYS) do
  has_timers[state] = redis.call('ZCARD', timer) > 0
end

-- Whether a timer has a job for this moment, or for none.
local function is_timed(state, uuid, moment)
  if not moment and not has_timers[state] then
    return true
  end
  local score = redis.call('ZSCORE', TIMER_KEYS[state], uuid)
  return (score and tonumber(score)) == moment
end

local function has_values(count, is_readable, ...)
  return is_readable and select('#', ...) == count
end

-- Whether nothing contradicts this record; false also if `check_record` has to look. A table of the fields, as it makes
-- one, takes more time than all else.
local function is_sound(uuid, value)
  local fields, rest,
    -- each field, by ",": its_FIELD
    , its_lane
    = read_record(uuid, value)
  if not fields or fields ~= FIELD_COUNT and fields ~= LANED_COUNT or jobs[uuid] ~= nil or its_state == 'COMPLETE' then
    return false
  end
  local is_claimed, is_delayed = its_state == 'CLAIMED', its_state == 'DELAYED'
  if is_claimed and not (its_owner and its_claim_id) or not is_claimed and (its_claim_id or its_expires)
    or is_delayed and not its_run_at then
    return false
  end
  return redis.call('ZSCORE', LISTS[its_state] .. its_name, member_of(uuid, its_sequence)) == its_place
    and is_timed('CLAIMED', uuid, is_claimed and its_expires)
    and is_timed('DELAYED', uuid, is_delayed and its_run_at)
    and (not its_key or its_state == 'TRASHED' or redis.call('HGET', KEYS_OF_JOBS, field(its_name, its_key)) == uuid)
    and (rest < 0 and its_history_length == 0
      or rest >= 0
        and has_values(ENTRY_PARTS * its_history_length, pcall(cmsgpack.unpack, string.sub(value, rest + 1))))
    and redis.call('HEXISTS', LISTINGS, uuid) == 1
    and (not its_lane or is_in_its_lane({
      uuid = uuid, name = its_name, sequence = its_sequence, place = its_place, state = its_state, token = its_token,
      lane = its_lane,
    }))
end

local function trash_unreadable(uuid, value)
  if not string.find(uuid, '^' .. string.rep('[%x-]', 36) .. '$') then
    quarantine('jobs', uuid, value)
    redis.call('HDEL', key('listings'), uuid)
    return
  end
  redis.call('HSET', key('unreadable'), uuid, value)
  for _, timer in pairs(TIMER_KEYS) do
    redis.call('ZREM', timer, uuid)
  end
  local sequence = redis.call('HINCRBY', key('counters'), 'sequence', 1)
  local job = {
    uuid = uuid, name = '?', priority = NORMAL, sequence = sequence, place = place_of(now, NORMAL),
    created = now, attempts = 0, token = now, history_length = 0, modified = now, state = 'TRASHED',
    reason = 'its record could not be read',
  }
  jobs[uuid], histories[uuid] = job, ''
  record_event(job, 'TRASHED', nil, nil, job.reason)
end

local function problem_of(job)
  if job.state == 'CLAIMED' and not (job.owner and job.claim_id) then
    return 'it is claimed, but nobody is its owner'
  end
  if job.state ~= 'CLAIMED' and (job.claim_id or job.expires) then
    return 'it is ' .. job.state .. ', but has a claim'
  end
  if job.state == 'DELAYED' and not job.run_at then
    return 'it is delayed, but for no moment'
  end
  if job.state == 'COMPLETE' then
    return 'it is complete, but listed as live'
  end
  return nil
end

local function repair_record(job)
  if job.state == 'CLAIMED' or job.state == 'DELAYED' or job.claim_id or job.expires then
    end_claim(job)
    job.state = job.state == 'TRASHED' and 'TRASHED' or 'UNCLAIMED'
  end
  reindex(job)
end

local function misplacement_of(job)
  for _, state in ipairs(STATES) do
    local score = redis.call('ZSCORE', state_index(state, job.name), member_of(job.uuid, job.sequence))
    if state == job.state and (not score or score ~= job.place) then
      return 'it is ' .. state .. ', but not listed as such'
    end
    if state ~= job.state and score then
      return 'it is ' .. job.state .. ', but listed as ' .. state
    end
  end
  for _, timer in ipairs({'leases', 'delayed'}) do
    local score = redis.call('ZSCORE', key(timer), job.uuid)
    local moment = timer == (TIMERS[job.state] or 'delayed') and due_at(job) or nil
    if (score and tonumber(score) or nil) ~= moment then
      return 'its timer is missing, or set for another moment'
    end
  end
  return nil
end

local function check_key(job)
  if not job.key or not is_live(job) then
    return
  end
  local uuid = redis.call('HGET', key('keys'), field(job.name, job.key))
  if uuid == job.uuid then
    return
  end
  report(job.uuid, 'its key leads to another job, or nowhere')
  if repair then
    local other = uuid and load(uuid)
    if other and is_live(other) and other.key == job.key then
      -- Of two jobs with one key, the one that the key leads to keeps it.
      job.key = nil
    end
    reindex(job)
  end
end

local function check_history(job)
  local history = histories[job.uuid]
  local parts = {pcall(cmsgpack.unpack, history)}
  if parts[1] and #parts == 1 + ENTRY_PARTS * job.history_length then
    return
  end
  report(job.uuid, 'its history can not be read')
  if repair then
    redis.call('HSET', key('unreadable'), job.uuid, history)
    histories[job.uuid], job.history_length = '', 0
    mark_changed(job)
  end
end

local function check_record(uuid, value)
  local job = load(uuid)
  if newer[uuid] then
    skipped = skipped or uuid
    return
  end
  if not job then
    report(uuid, 'its record can not be read')
    if repair then
      trash_unreadable(uuid, value)
    end
    return
  end
  local problem = problem_of(job)
  if problem then
    report(uuid, problem)
    if repair then
      repair_record(job)
    end
  end
  local misplacement = not problem and misplacement_of(job)
  if misplacement then
    report(uuid, misplacement)
    if repair then
      reindex(job)
    end
  end
  check_key(job)
  if job.is_tied then
    check_ties(job)
  end
  if job.lane then
    check_lane(job)
  end
  check_history(job)
  if redis.call('HEXISTS', key('listings'), uuid) == 0 then
    report(uuid, 'its posting is missing')
    if repair and job.state ~= 'TRASHED' then
      job.reason = 'its posting is missing'
      trash(job, nil, nil, job.reason)
    end
    if repair then
      bodies[uuid] = ''
      mark_changed(job)
    end
  end
end

local function check_records(cursor)
  local found = redis.call('HSCAN', RECORDS, cursor, 'COUNT', CHUNK)
  for index = 1, #found[2], 2 do
    local uuid, value = found[2][index], found[2][index + 1]
    if not is_sound(uuid, value) then
      check_record(uuid, value)
    end
  end
  return found[1] ~= '0' and found[1]
end
