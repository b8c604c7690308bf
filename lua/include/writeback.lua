-- include: events
-- include: heads
-- include: own_keys
-- include: owner_keys
-- include: lists
-- include: lanes
-- include: waiters
-- Writes changed jobs back: records, indexes, timers, owner keys, keys, heads, events, waiters. A transition only
-- changes the job's table and calls `record_event`; the rest is worked out here, and written in one call for each key.

-- A result that is longer does not go with an edge.
local MAX_EDGE_RESULT = 65536

-- What is still to be done for other jobs, before anything is written: see relatives.lua.
local relatives = {is_awaited = false, steps = {}, posts = {}, due = {}, unsettled = {}, adds = {}}
local carry_out

-- Let a job have keys of its own from now on.
local function take_keys(job)
  if not job.has_keys then
    delete_remains(job.uuid)
    job.has_keys, job.is_tied = true, true
    keep(job)
  end
end

local function update_key(fields, lost, job, was)
  local was_live, live = LIVE[was or false], LIVE[job.state]
  if live and not was_live then
    local list = list_in(fields, key('keys'))
    list[#list + 1] = field(job.name, job.key)
    list[#list + 1] = job.uuid
  elseif was_live and not live then
    local list = list_in(lost, key('keys'))
    list[#list + 1] = field(job.name, job.key)
  end
end

-- The timer of a job with ties can change while its state stays; and it may have keys of its own from now on.
local function list_tied(adds, removals, job, was, moment)
  if was then
    table.insert(list_in(removals, key(TIMERS[was] or 'delayed')), job.uuid)
  end
  if moment then
    local timer = list_in(adds, key(TIMERS[job.state] or 'delayed'))
    timer[#timer + 1] = decimal(moment)
    timer[#timer + 1] = job.uuid
  end
  if job.has_keys and (not job.had_keys or job.state == 'COMPLETE') then
    local owners = list_in(adds, key('own_keys'))
    owners[#owners + 1] = job.state == 'COMPLETE' and decimal(job.retained + RETRY_WINDOW) or '+inf'
    owners[#owners + 1] = job.uuid
  end
end

-- Move jobs that have ended to keys of their own, which expire.
local function archive(uuids, adds, lost)
  local postings = redis.call('HMGET', key('listings'), unpack(uuids))
  local retained, groups = list_in(adds, key('completed')), {}
  for index, uuid in ipairs(uuids) do
    local job = jobs[uuid]
    local posting, checkpoint, progress, result = postings[index] or '', false, false, results[uuid] or false
    local is_cut
    if is_hidden(job) then
      -- Only a repeated request can still ask how it ended; and a job that is posted soon may be its child.
      is_cut = result and #result > MAX_EDGE_RESULT or nil
      posting, result = '', not is_cut and result
    end
    if job.checkpoint then
      checkpoint = not is_hidden(job) and redis.call('HGET', key('checkpoints'), uuid)
      table.insert(list_in(lost, key('checkpoints')), uuid)
    end
    if job.progress then
      progress = not is_hidden(job) and redis.call('HGET', key('progress'), uuid)
      table.insert(list_in(lost, key('progress')), uuid)
    end
    finished[uuid] = {posting, checkpoint, progress, result, is_cut}
    local value = cmsgpack.pack(packed[uuid], histories[uuid], unpack(finished[uuid]))
    redis.call('SET', key('done', uuid), value, 'PXAT', expiry_of(job.retained + RETRY_WINDOW))
    if not is_hidden(job) then
      table.insert(list_in(list_in(groups, decimal(job.retained)), job.name), member_of(uuid, job.sequence))
    end
  end
  for moment, names in pairs(groups) do
    for name, list in pairs(names) do
      retained[#retained + 1] = moment
      retained[#retained + 1] = field(name, table.concat(list))
    end
  end
  lost[key('jobs')] = uuids
  lost[key('listings')] = uuids
end

-- May be called several times.
local function write_back()
  local soon = {}
  if relatives.is_awaited then
    carry_out(soon)
  end
  if has_lanes then
    look_at_lanes(soon)
  end
  if #changed == 0 then
    publish()
    wake_waiters({}, soon, {}, {})
    return
  end
  local adds, removals, fields, lost = {}, {}, {}, {}
  local records, listings, ended = {}, {}, {}
  local ready, left, heads, names, offered = {}, {}, {}, {}, {}
  local has_ended_owners = false
  local run_was, run_state, run_name, from, to, from_timer, to_timer
  for _, job in ipairs(changed) do
    local uuid, name, state, was, moment = job.uuid, job.name, job.state, before[job.uuid], due_at(job)
    local member = member_of(uuid, job.sequence)
    if was ~= run_was or state ~= run_state or name ~= run_name then
      -- In a batch, most jobs make the same transition.
      run_was, run_state, run_name = was, state, name
      from = was and list_in(removals, state_index(was, name))
      to = list_in(adds, state_index(state, name))
      from_timer = TIMERS[was] and list_in(removals, key(TIMERS[was]))
      to_timer = TIMERS[state] and list_in(adds, key(TIMERS[state]))
    end

    if was ~= state or moved[uuid] then
      if was then
        from[#from + 1] = member
      end
      if state ~= 'COMPLETE' or not is_hidden(job) then
        to[#to + 1] = job.place
        to[#to + 1] = member
      end
      if was == 'UNCLAIMED' then
        heads[name] = true
      elseif state == 'UNCLAIMED' and heads[name] ~= true then
        local place = tonumber(job.place)
        heads[name] = math.min(heads[name] or place, place)
      end
      if state == 'UNCLAIMED' then
        ready[name] = (ready[name] or 0) + 1
        if job.lane and was ~= 'CLAIMED' and not lane_limits[job.lane].is_strict then
          offered[#offered + 1] = job
        end
      elseif was == 'CLAIMED' then
        left[name] = (left[name] or 0) + 1
      end
    end

    if job.is_tied then
      list_tied(adds, removals, job, was, moment)
      has_ended_owners = has_ended_owners or job.has_keys and state == 'COMPLETE'
    elseif from_timer and not (moment and was == state) then
      from_timer[#from_timer + 1] = uuid
    end
    if moment then
      if not job.is_tied then
        to_timer[#to_timer + 1] = decimal(moment)
        to_timer[#to_timer + 1] = uuid
      end
      if moment - now < SOON then
        soon[name] = true
      end
    end

    if state == 'CLAIMED' and job.claim_id then
      local owner_key = owner_key_of(job.claim_id)
      owner_key.last = math.max(owner_key.last, moment or math.huge)
    end

    if job.key then
      update_key(fields, lost, job, was)
    end

    local record = encode(job)
    packed[uuid] = record
    if state == 'COMPLETE' then
      ended[#ended + 1] = uuid
    else
      records[#records + 1] = uuid
      records[#records + 1] = record .. histories[uuid]
      if bodies[uuid] then
        listings[#listings + 1] = uuid
        listings[#listings + 1] = bodies[uuid]
      end
      if not was then
        names[name] = true
      end
    end
  end
  for _, job in ipairs(changed) do
    before[job.uuid] = job.state
  end

  if #ended > 0 then
    archive(ended, adds, lost)
  end
  if has_ended_owners then
    -- At full speed more jobs end than `tidy` could forget.
    forget_keys(2 * #ended)
  end
  fields[key('jobs')], fields[key('listings')] = records, listings
  write_all('HDEL', lost)
  write_all('HSET', fields)
  write_all('ZREM', removals)
  write_all('ZADD', adds)
  for name in pairs(names) do
    redis.call('ZADD', key('names'), 'NX', '0', name)
  end
  write_owner_keys()
  for name, place in pairs(heads) do
    if place == true then
      set_head(name)
    else
      redis.call('ZADD', key('heads'), 'LT', string.format('%.0f', place), name)
    end
  end
  changed, is_changed, moved = {}, {}, {}
  publish()
  wake_waiters(ready, soon, left, offered)
end
