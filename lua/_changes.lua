-- include: jobs
-- include: wake
-- From changed jobs to everything that must follow: records, orders, timers, owner keys, keys, heads, events, waiters.
-- A transition only changes the job's table and says so by `tell`; what follows is worked out here, in one place.

local HISTORY_LENGTH = 20

local changed = {}
local is_changed = {}
local bodies = {}
local packed = {}
local events = {}
local results = {}

local function mark(job)
  if not is_changed[job.uuid] then
    is_changed[job.uuid] = true
    changed[#changed + 1] = job
  end
  job.modified = now
end

-- Events of one kind in a row travel as one message, on the channel of that kind.
local function announce(kind, uuid, name, line)
  local last = events[#events]
  if not last or last.kind ~= kind then
    last = {kind = kind}
    events[#events + 1] = last
  end
  last[#last + 1] = cmsgpack.pack(uuid, name) .. line
end

local function line_of(kind, who, token, reason)
  return cmsgpack.pack({kind, now, who or false, token or false, reason or false})
end

-- An event that is kept out of the history.
local function touch(job, kind)
  mark(job)
  announce(kind, job.uuid, job.name, line_of(kind, job.owner, job.token))
end

-- A line of the history, and its event.
local function tell(job, kind, who, token, reason)
  mark(job)
  local line = line_of(kind, who, token, reason)
  local lines = histories[job.uuid] .. line
  job.lines = job.lines + 1
  if job.lines > HISTORY_LENGTH then
    lines = string.sub(lines, cmsgpack.unpack_one(lines) + 1)
    job.lines = HISTORY_LENGTH
  end
  histories[job.uuid] = lines
  announce(kind, job.uuid, job.name, line)
end

local function push(lists, name, ...)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  for _, item in ipairs({...}) do
    list[#list + 1] = item
  end
end

-- Bring what leads to a name's best job in line with its ready order.
local function set_head(name)
  local head = redis.call('ZRANGE', order('UNCLAIMED', name), 0, 0, 'WITHSCORES')
  if head[2] then
    redis.call('ZADD', key('heads'), head[2], name)
  else
    redis.call('ZREM', key('heads'), name)
  end
end

local function set_owner(job)
  local owner = decimal(job.token) .. ' ' .. job.owner
  if job.expires then
    redis.call('SET', key('owner', job.uuid), owner, 'PXAT', decimal(math.ceil(job.expires / 1000)))
  else
    redis.call('SET', key('owner', job.uuid), owner)
  end
end

-- Move a job that has ended to a key of its own, which goes by itself.
local function put_by(job)
  local uuid = job.uuid
  local parts = finished[uuid]
  if not parts then
    parts = {false, redis.call('HGET', key('listings'), uuid) or '', false, false, results[uuid] or false}
    parts[3] = job.checkpoint and redis.call('HGET', key('checkpoints'), uuid) or false
    parts[4] = job.progress and redis.call('HGET', key('progress'), uuid) or false
    finished[uuid] = parts
  end
  parts[1] = packed[uuid] .. histories[uuid]
  if job.retained then
    local left = job.retained + RETRY_WINDOW - now
    redis.call('SET', key('done', uuid), cmsgpack.pack(parts), 'PX', decimal(math.ceil(left / 1000)))
  else
    redis.call('SET', key('done', uuid), cmsgpack.pack(parts))
  end
end

local function follow_order(job, was, writes)
  local spot, shown = place(job), not is_hidden(job)
  if was and was.state == job.state and was.place == spot and shown then
    return
  end
  if was then
    push(writes.removals, order(was.state, job.name), job.uuid)
  end
  if shown then
    push(writes.adds, order(job.state, job.name), spot, job.uuid)
  end
  if job.state == 'UNCLAIMED' then
    writes.ready[job.name] = (writes.ready[job.name] or 0) + 1
  end
  if job.state == 'UNCLAIMED' or (was and was.state == 'UNCLAIMED') then
    writes.heads[job.name] = true
  end
end

local function follow_time(job, was, writes)
  local moment = due(job)
  if was and was.due and (was.state ~= job.state or not moment) then
    push(writes.removals, key(was.state == 'CLAIMED' and 'leases' or 'delayed'), job.uuid)
  end
  if moment and not (was and was.state == job.state and was.due == moment) then
    push(writes.adds, key(job.state == 'CLAIMED' and 'leases' or 'delayed'), moment, job.uuid)
    if moment - now < SOON then
      writes.soon[job.name] = true
    end
  end
end

local function follow_owner(job, was, writes)
  if job.state == 'CLAIMED' then
    if not (was and was.state == 'CLAIMED' and was.token == job.token and was.due == job.expires) then
      set_owner(job)
    end
  elseif was and was.state == 'CLAIMED' then
    push(writes.owners, 'DEL', key('owner', job.uuid))
  end
end

local function follow_key(job, was, writes)
  if not job.key then
    return
  end
  local was_live, live = was and is_live(was), is_live(job)
  if live and not was_live then
    push(writes.fields, 'keys', field(job.name, job.key), job.uuid)
  elseif was_live and not live then
    push(writes.lost_fields, 'keys', field(job.name, job.key))
  end
end

local function follow_record(job, was, writes)
  local uuid = job.uuid
  packed[uuid] = cmsgpack.pack(job)
  if job.state == 'COMPLETE' then
    put_by(job)
    for _, hash in ipairs({'records', 'listings'}) do
      push(writes.lost_fields, hash, uuid)
    end
    if job.checkpoint then
      push(writes.lost_fields, 'checkpoints', uuid)
    end
    if job.progress then
      push(writes.lost_fields, 'progress', uuid)
    end
    if job.retained and not is_hidden(job) then
      push(writes.adds, key('retained'), job.retained, uuid .. job.name)
    end
    return
  end
  push(writes.fields, 'records', uuid, packed[uuid] .. histories[uuid])
  if bodies[uuid] then
    push(writes.fields, 'listings', uuid, bodies[uuid])
  end
  if not was then
    writes.names[job.name] = true
  end
end

local function write(writes)
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
    redis.call('ZADD', key('names'), 'NX', 0, name)
  end
  for command, keys in pairs(writes.owners) do
    redis.call(command, unpack(keys))
  end
  for name in pairs(writes.heads) do
    set_head(name)
  end
end

local function publish()
  for _, event in ipairs(events) do
    redis.call('SPUBLISH', key('events', event.kind), table.concat(event))
  end
  events = {}
end

-- Write everything back; may be called several times.
local function flush()
  if #changed > 0 then
    local writes = {
      adds = {}, removals = {}, fields = {}, lost_fields = {}, names = {}, owners = {}, heads = {}, ready = {}, soon = {},
    }
    for _, job in ipairs(changed) do
      local was = before[job.uuid]
      follow_order(job, was, writes)
      follow_time(job, was, writes)
      follow_owner(job, was, writes)
      follow_key(job, was, writes)
      follow_record(job, was, writes)
      remember(job)
    end
    write(writes)
    changed, is_changed = {}, {}
    publish()
    stir(writes.ready, writes.soon)
  else
    publish()
  end
end
