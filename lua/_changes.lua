-- include: tell
-- include: wake
-- From changed jobs to everything that must follow: records, orders, timers, owner keys, keys, heads, events, waiters.
-- A transition only changes the job's table and says so by `tell`; what follows is worked out here, in one place, and
-- written in one call for each key.

-- Bring what leads to a name's best job in line with its ready order.
local function set_head(name)
  local head = redis.call('ZRANGE', order('UNCLAIMED', name), '0', '0', 'WITHSCORES')
  if head[2] then
    redis.call('ZADD', key('heads'), head[2], name)
  else
    redis.call('ZREM', key('heads'), name)
  end
end

-- The list that belongs to a key; a new one the first time.
local function list_in(lists, name)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  return list
end

local function write(command, lists)
  for name, list in pairs(lists) do
    if #list > 0 then
      redis.call(command, name, unpack(list))
    end
  end
end

local function follow_key(fields, lost, job, was)
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

-- Move jobs that have ended to keys of their own, which go by themselves.
local function put_by(uuids, adds, lost)
  local postings = redis.call('HMGET', key('listings'), unpack(uuids))
  local retained = list_in(adds, key('retained'))
  for index, uuid in ipairs(uuids) do
    local job = jobs[uuid]
    local posting, checkpoint, progress, result = postings[index] or '', false, false, results[uuid] or false
    if is_hidden(job) then
      -- Nobody reads it any more; only a repeated request still asks how it ended.
      posting, result = '', false
    end
    if job.checkpoint then
      checkpoint = not is_hidden(job) and redis.call('HGET', key('checkpoints'), uuid)
      table.insert(list_in(lost, key('checkpoints')), uuid)
    end
    if job.progress then
      progress = not is_hidden(job) and redis.call('HGET', key('progress'), uuid)
      table.insert(list_in(lost, key('progress')), uuid)
    end
    finished[uuid] = {posting, checkpoint, progress, result}
    local value = cmsgpack.pack(packed[uuid], histories[uuid], posting, checkpoint, progress, result)
    if job.retained then
      local over = decimal(math.ceil((job.retained + RETRY_WINDOW) / 1000))
      redis.call('SET', key('done', uuid), value, 'PXAT', over)
      if not is_hidden(job) then
        retained[#retained + 1] = decimal(job.retained)
        retained[#retained + 1] = uuid .. job.name
      end
    else
      redis.call('SET', key('done', uuid), value)
    end
  end
  lost[key('records')] = uuids
  lost[key('listings')] = uuids
end

-- Write everything back; may be called several times, each job being changed before one of them only.
local function flush()
  if #changed == 0 then
    publish()
    return
  end
  local adds, removals, fields, lost = {}, {}, {}, {}
  local records, listings, owners, ended = {}, {}, {}, {}
  local ready, soon, heads, names = {}, {}, {}, {}
  local run_was, run_state, run_name, from, to, from_timer, to_timer
  for _, job in ipairs(changed) do
    local uuid, name, state, was, moment = job.uuid, job.name, job.state, before[job.uuid], due(job)
    if was ~= run_was or state ~= run_state or name ~= run_name then
      -- In a batch, most jobs take the same step.
      run_was, run_state, run_name = was, state, name
      from = was and list_in(removals, order(was, name))
      to = list_in(adds, order(state, name))
      from_timer = TIMERS[was] and list_in(removals, key(TIMERS[was]))
      to_timer = TIMERS[state] and list_in(adds, key(TIMERS[state]))
    end

    if was ~= state or moved[uuid] then
      if was then
        from[#from + 1] = uuid
      end
      if state ~= 'COMPLETE' or not is_hidden(job) then
        to[#to + 1] = job.place
        to[#to + 1] = uuid
      end
      if was == 'UNCLAIMED' then
        heads[name] = true
      elseif state == 'UNCLAIMED' and heads[name] ~= true then
        local place = tonumber(job.place)
        heads[name] = math.min(heads[name] or place, place)
      end
      if state == 'UNCLAIMED' then
        ready[name] = (ready[name] or 0) + 1
      end
    end

    if from_timer and not (moment and was == state) then
      from_timer[#from_timer + 1] = uuid
    end
    if moment then
      to_timer[#to_timer + 1] = decimal(moment)
      to_timer[#to_timer + 1] = uuid
      if moment - now < SOON then
        soon[name] = true
      end
    end

    if state == 'CLAIMED' then
      if moment then
        -- The TTL is up to a millisecond longer than the claim, which `leases` ends to the microsecond.
        redis.call('SET', key('owner', uuid), job.owner, 'PXAT', decimal(math.ceil(moment / 1000)))
      else
        redis.call('SET', key('owner', uuid), job.owner)
      end
    elseif was == 'CLAIMED' then
      owners[#owners + 1] = key('owner', uuid)
    end

    if job.key then
      follow_key(fields, lost, job, was)
    end

    local record = fold(job)
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
    put_by(ended, adds, lost)
  end
  fields[key('records')], fields[key('listings')] = records, listings
  write('HDEL', lost)
  write('HSET', fields)
  write('ZREM', removals)
  write('ZADD', adds)
  for name in pairs(names) do
    redis.call('ZADD', key('names'), 'NX', '0', name)
  end
  if #owners > 0 then
    redis.call('DEL', unpack(owners))
  end
  for name, place in pairs(heads) do
    if place == true then
      set_head(name)
    else
      redis.call('ZADD', key('heads'), 'LT', string.format('%.0f', place), name)
    end
  end
  changed, is_changed, moved = {}, {}, {}
  publish()
  stir(ready, soon)
end
