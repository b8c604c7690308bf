#!lua flags=allow-oom
-- Find contradictions, a part of the board at a time, and repair them if told to.
--
-- KEYS: 1 the board
-- ARGV: 1 whether to repair (1 or 0); 2 the cursor that the last call returned (an empty string at first)
-- Returns: OK, the cursor (an empty string at the end), uuid (or an empty string) and problem of each finding, and the
--       uuid of a job of a newer format, which is not checked, or false
-- A repeat finds what is left; each repair is atomic with its finding.
--
-- Records are checked first, and are the truth; then the indexes, which must match them.
--
-- include: expire_and_promote

expire_and_promote('50')

local STATES = {'DELAYED', 'UNCLAIMED', 'CLAIMED', 'COMPLETE', 'TRASHED'}
local CHUNK = 200
local repair = ARGV[1] == '1'
local findings, skipped = {}, nil

local function report(uuid, problem)
  findings[#findings + 1] = uuid
  findings[#findings + 1] = problem
end

-- Move a value that can't be read out of its hash, and keep it.
local function quarantine(hash, name, value)
  redis.call('HSET', key('unreadable'), name, value)
  redis.call('HDEL', key(hash), name)
end

-- include: audit_schedules
-- include: audit_books

-- Remove a job from all indexes; `write_back` then adds it as a new one.
local function reindex(job)
  for _, state in ipairs(STATES) do
    redis.call('ZREM', state_index(state, job.name), job.uuid)
  end
  redis.call('ZREM', key('leases'), job.uuid)
  redis.call('ZREM', key('delayed'), job.uuid)
  redis.call('ZADD', key('names'), 'NX', 0, job.name)
  before[job.uuid] = nil
  mark_changed(job)
end

local function trash_unreadable(uuid, value)
  if not string.find(uuid, '^' .. string.rep('[%x-]', 36) .. '$') then
    quarantine('records', uuid, value)
    redis.call('HDEL', key('listings'), uuid)
    return
  end
  redis.call('HSET', key('unreadable'), uuid, value)
  local sequence = redis.call('HINCRBY', key('counters'), 'sequence', 1)
  local job = {
    uuid = uuid, name = '?', priority = 3, sequence = sequence, place = decimal(sequence - 3 * PLACES_OF_PRIORITY),
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
    local score = redis.call('ZSCORE', state_index(state, job.name), job.uuid)
    if state == job.state and (not score or score ~= job.place) then
      return 'it is ' .. state .. ', but not listed as such'
    end
    if state ~= job.state and score then
      return 'it is ' .. job.state .. ', but listed as ' .. state
    end
  end
  for timer, state in pairs({leases = 'CLAIMED', delayed = 'DELAYED'}) do
    local score = redis.call('ZSCORE', key(timer), job.uuid)
    local moment = state == job.state and due_at(job) or nil
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
  local found = redis.call('HSCAN', key('records'), cursor, 'COUNT', CHUNK)
  for index = 1, #found[2], 2 do
    check_record(found[2][index], found[2][index + 1])
  end
  return found[1] ~= '0' and found[1]
end

-- Whether an index may have this member. Completed jobs expire, and stay in their index until they are pruned.
local function belongs(uuid, state, name)
  local job = load_any(uuid)
  return newer[uuid] or state == 'COMPLETE' and not job or job and job.state == state and job.name == name
end

-- Return from where to go on, or false; and how many members were checked.
local function check_index(state, name, after)
  local found = redis.call(
    'ZRANGEBYSCORE', state_index(state, name), after, '+inf', 'WITHSCORES', 'LIMIT', 0, CHUNK)
  for index = 1, #found, 2 do
    if not belongs(found[index], state, name) then
      report('', 'the list of ' .. state .. ' jobs holds another one: ' .. found[index])
      if repair then
        redis.call('ZREM', state_index(state, name), found[index])
      end
    end
  end
  return #found == 2 * CHUNK and '(' .. found[#found], #found / 2
end

local function check_head(name)
  local head = redis.call('ZRANGE', state_index('UNCLAIMED', name), 0, 0, 'WITHSCORES')[2] or false
  if head ~= redis.call('ZSCORE', key('heads'), name) then
    report('', 'the best job of ' .. name .. ' is not known as such')
    if repair then
      set_head(name)
    end
  end
end

-- One index of one name; the cursor is "place state name".
local function check_next_index(cursor)
  local after, number, name = string.match(cursor, '^(%S+) (%d) (.*)$')
  if not after then
    after, number, name = '-inf', 1, redis.call('ZRANGE', key('names'), 0, 0)[1]
    if not name then
      return false, 0
    end
  end
  number = tonumber(number)
  local further, checked = check_index(STATES[number], name, after)
  if further then
    return further .. ' ' .. number .. ' ' .. name, checked
  end
  if number < #STATES then
    return '-inf ' .. (number + 1) .. ' ' .. name, checked
  end
  check_head(name)
  -- If somebody has set other scores than 0, ZRANGEBYLEX could return names in a circle.
  local following = redis.call('ZRANGEBYLEX', key('names'), '(' .. name, '+', 'LIMIT', 0, 1)[1]
  return following and comes_after(following, name) and '-inf 1 ' .. following, checked
end

-- Many small indexes in one call: a board may have a name for each job.
local function check_indexes(cursor)
  local members = 0
  for _ = 1, CHUNK do
    local further, checked = check_next_index(cursor)
    cursor, members = further, members + checked
    if not cursor or members >= CHUNK then
      break
    end
  end
  return cursor
end

local function check_timers()
  for timer, state in pairs({leases = 'CLAIMED', delayed = 'DELAYED'}) do
    local names = redis.call('ZRANGE', key('names'), 0, -1)
    local count = 0
    for _, name in ipairs(names) do
      count = count + redis.call('ZCARD', state_index(state, name))
    end
    if redis.call('ZCARD', key(timer)) > count then
      report('', 'there are timers of other jobs')
      local members = repair and redis.call('ZRANGE', key(timer), 0, 4 * CHUNK) or {}
      fetch(members)
      for _, uuid in ipairs(members) do
        if not newer[uuid] and not (jobs[uuid] and jobs[uuid].state == state) then
          redis.call('ZREM', key(timer), uuid)
        end
      end
    end
  end
  return false
end

local function check_keys(cursor)
  local found = redis.call('HSCAN', key('keys'), cursor, 'COUNT', CHUNK)
  for index = 1, #found[2], 2 do
    local text, uuid = found[2][index], found[2][index + 1]
    local job = load(uuid)
    if not newer[uuid] and not (job and is_live(job) and job.key and field(job.name, job.key) == text) then
      report('', 'a key leads to a job that is not live, or does not have it: ' .. uuid)
      if repair then
        redis.call('HDEL', key('keys'), text)
      end
    end
  end
  return found[1] ~= '0' and found[1]
end

local PHASES = {
  check_records, check_indexes, check_timers, check_keys, check_counter, check_schedules, check_due, check_entities,
  check_book_entries, check_entry_names,
}
local phase, cursor = string.match(ARGV[2], '^(%d+) (.*)$')
phase, cursor = tonumber(phase or 1), cursor or '0'
local further = PHASES[phase](cursor)
write_back()
if not further then
  phase, further = phase + 1, '0'
end
return {'OK', phase <= #PHASES and phase .. ' ' .. further or '', findings, skipped or false}
