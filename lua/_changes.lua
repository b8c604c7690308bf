-- include: jobs
-- include: wake
-- From changed jobs to everything that must follow: records, orders, timers, owner keys, keys, heads, events, waiters.
-- A transition only changes the job's table and says so by `tell`; what follows is worked out here, in one place, and
-- written in one call for each key.

local function mark(job)
  if not is_changed[job.uuid] then
    is_changed[job.uuid] = true
    changed[#changed + 1] = job
  end
  job.modified = now
end

-- Events of one kind in a row travel as one message, on the channel of that kind, if anybody hears it.
local function announce(kind, uuid, name, line)
  if heard[kind] == nil then
    heard[kind] = redis.call('PUBSUB', 'SHARDNUMSUB', key('events', kind))[2] > 0
  end
  if not heard[kind] then
    return
  end
  local run = events[#events]
  if not run or run.kind ~= kind then
    run = {kind = kind}
    events[#events + 1] = run
  end
  run[#run + 1] = cmsgpack.pack(uuid, name) .. line
end

-- In a batch, most lines are the same as the one before.
local function line_of(kind, who, token, reason)
  if latest.kind ~= kind or latest.who ~= who or latest.token ~= token or latest.reason ~= reason then
    latest.kind, latest.who, latest.token, latest.reason = kind, who, token, reason
    latest.line = cmsgpack.pack(kind, now, who or false, token or false, reason or false)
  end
  return latest.line
end

-- An event that is kept out of the history.
local function touch(job, kind)
  mark(job)
  announce(kind, job.uuid, job.name, line_of(kind, job.owner, job.token))
end

-- A line of the history, and its event.
local function tell(job, kind, who, token, reason)
  mark(job)
  local uuid, line = job.uuid, line_of(kind, who or nil, token or nil, reason or nil)
  local lines = histories[uuid] .. line
  if job.lines < HISTORY_LENGTH then
    job.lines = job.lines + 1
  else
    lines = string.sub(lines, cmsgpack.unpack_limit(lines, LINE_PARTS) + 1)
  end
  histories[uuid] = lines
  announce(kind, uuid, job.name, line)
end

local function publish()
  if #events > 0 then
    for _, event in ipairs(events) do
      redis.call('SPUBLISH', key('events', event.kind), table.concat(event))
    end
    events = {}
  end
end

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

local function append(list, one, two)
  local count = #list
  list[count + 1] = one
  list[count + 2] = two
end

local function follow_order(writes, job, was)
  local state, name, uuid = job.state, job.name, job.uuid
  if was == state and not moved[uuid] then
    return
  end
  if was then
    append(list_in(writes.removals, order(was, name)), uuid)
  end
  if state == 'UNCLAIMED' then
    writes.ready[name] = (writes.ready[name] or 0) + 1
    writes.heads[name] = true
  elseif was == 'UNCLAIMED' then
    writes.heads[name] = true
  end
  if state ~= 'COMPLETE' or not is_hidden(job) then
    append(list_in(writes.adds, order(state, name)), job.place, uuid)
  end
end

local function follow_time(writes, job, was)
  local moment = due(job)
  if was and TIMERS[was] and not (moment and was == job.state) then
    append(list_in(writes.removals, key(TIMERS[was])), job.uuid)
  end
  if moment then
    append(list_in(writes.adds, key(TIMERS[job.state])), decimal(moment), job.uuid)
    if moment - now < SOON then
      writes.soon[job.name] = true
    end
  end
end

-- The TTL is up to a millisecond longer than the claim, which `leases` ends to the microsecond.
local function follow_owner(writes, job, was)
  if job.state == 'CLAIMED' then
    if job.expires then
      redis.call('SET', key('owner', job.uuid), job.owner, 'PXAT', decimal(math.ceil(job.expires / 1000)))
    else
      redis.call('SET', key('owner', job.uuid), job.owner)
    end
  elseif was == 'CLAIMED' then
    append(writes.owners, key('owner', job.uuid))
  end
end

local function follow_key(writes, job, was)
  local was_live, live = LIVE[was or false], LIVE[job.state]
  if live and not was_live then
    append(list_in(writes.fields, 'keys'), field(job.name, job.key), job.uuid)
  elseif was_live and not live then
    append(list_in(writes.lost_fields, 'keys'), field(job.name, job.key))
  end
end

local function follow_record(writes, job, was)
  local uuid = job.uuid
  local record = cmsgpack.pack(job)
  packed[uuid] = record
  if job.state == 'COMPLETE' then
    append(writes.ended, uuid)
    return
  end
  append(list_in(writes.fields, 'records'), uuid, record .. histories[uuid])
  if bodies[uuid] then
    append(list_in(writes.fields, 'listings'), uuid, bodies[uuid])
  end
  if not was then
    writes.names[job.name] = true
  end
end

-- Move jobs that have ended to keys of their own, which go by themselves.
local function put_by(writes)
  local uuids = writes.ended
  local postings = redis.call('HMGET', key('listings'), unpack(uuids))
  for index, uuid in ipairs(uuids) do
    local job = jobs[uuid]
    local checkpoint, progress = false, false
    if job.checkpoint then
      checkpoint = redis.call('HGET', key('checkpoints'), uuid)
      append(list_in(writes.lost_fields, 'checkpoints'), uuid)
    end
    if job.progress then
      progress = redis.call('HGET', key('progress'), uuid)
      append(list_in(writes.lost_fields, 'progress'), uuid)
    end
    finished[uuid] = {postings[index] or '', checkpoint, progress, results[uuid] or false}
    local value = cmsgpack.pack(packed[uuid], histories[uuid], unpack(finished[uuid]))
    if job.retained then
      local over = decimal(math.ceil((job.retained + RETRY_WINDOW) / 1000))
      redis.call('SET', key('done', uuid), value, 'PXAT', over)
      if not is_hidden(job) then
        append(list_in(writes.adds, key('retained')), decimal(job.retained), uuid .. job.name)
      end
    else
      redis.call('SET', key('done', uuid), value)
    end
  end
  redis.call('HDEL', key('records'), unpack(uuids))
  redis.call('HDEL', key('listings'), unpack(uuids))
end

local function write(writes)
  if #writes.ended > 0 then
    put_by(writes)
  end
  for hash, fields in pairs(writes.lost_fields) do
    redis.call('HDEL', key(hash), unpack(fields))
  end
  for hash, fields in pairs(writes.fields) do
    redis.call('HSET', key(hash), unpack(fields))
  end
  for name, members in pairs(writes.removals) do
    redis.call('ZREM', name, unpack(members))
  end
  for name, members in pairs(writes.adds) do
    redis.call('ZADD', name, unpack(members))
  end
  for name in pairs(writes.names) do
    redis.call('ZADD', key('names'), 'NX', '0', name)
  end
  if #writes.owners > 0 then
    redis.call('DEL', unpack(writes.owners))
  end
  for name in pairs(writes.heads) do
    set_head(name)
  end
end

-- Write everything back; may be called several times, each job being changed before one of them only.
local function flush()
  if #changed > 0 then
    local writes = {
      adds = {}, removals = {}, fields = {}, lost_fields = {}, owners = {}, ended = {}, names = {}, heads = {},
      ready = {}, soon = {},
    }
    for _, job in ipairs(changed) do
      local was = before[job.uuid]
      follow_order(writes, job, was)
      follow_time(writes, job, was)
      follow_owner(writes, job, was)
      if job.key then
        follow_key(writes, job, was)
      end
      follow_record(writes, job, was)
    end
    for _, job in ipairs(changed) do
      before[job.uuid] = job.state
    end
    write(writes)
    changed, is_changed, moved = {}, {}, {}
    publish()
    stir(writes.ready, writes.soon)
  else
    publish()
  end
end
