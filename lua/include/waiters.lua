-- include: board
-- include: paused
-- A waiter is armed: it stands in `waiters` with the names that it waits for ('' is any) and its claim request, if it
-- has one; in `armed` with the moment until which it sleeps; and in `waiting:NAME` of each name. One claimable job
-- wakes one waiter; a client that is not subscribed any more is skipped.

-- In microseconds; longer ones have no end.
local LONGEST_CLAIM = 4503599627370496

-- The names that an armed waiter waits for, and its claim request.
local function armed_with(id)
  local armed = redis.call('HGET', key('waiters'), id)
  if armed then
    local readable, names, asked = pcall(cmsgpack.unpack, armed)
    return readable and type(names) == 'table' and names or {}, readable and type(asked) == 'table' and asked or nil
  end
end

local function forget(id, names)
  redis.call('HDEL', key('waiters'), id)
  redis.call('ZREM', key('armed'), id)
  for _, name in ipairs(names) do
    redis.call('ZREM', key('waiting', tostring(name)), id)
  end
end

-- Returns the waiter's claim request.
local function disarm(id)
  local names, asked = armed_with(id)
  if names then
    forget(id, names)
  end
  return asked
end

-- The channel of a waiter, or that of its client.
local function channel_of(id)
  return key('wake', string.match(id, '^[^/]*'))
end

-- Disarm the next one that waits for a name, and return its id, its channel, its names and its claim request.
local function next_waiter(name)
  for _, wanted in ipairs({name, ''}) do
    for _ = 1, MAX_SKIPPED do
      local id = redis.call('ZRANGEBYSCORE', key('waiting', wanted), now_text, '+inf', 'LIMIT', '0', '1')[1]
      if not id then
        break
      end
      local names, asked = armed_with(id)
      forget(id, names or {wanted})
      local channel = channel_of(id)
      if redis.call('PUBSUB', 'SHARDNUMSUB', channel)[2] > 0 then
        return {id = id, channel = channel, names = names or {}, asked = asked}
      end
    end
  end
end

-- What wakes a waiter is its id. If it has a claim request, the claim id follows, and the job that is claimed for it.
local function wake(waiter, row)
  local message = waiter.asked and cmsgpack.pack({waiter.id, waiter.asked[2], unpack(row or {})}) or waiter.id
  redis.call('SPUBLISH', waiter.channel, message)
end

-- The claim request of a waiter, if a new job may be claimed under it: if it can be read, its claim is long enough to
-- be renewed, and no job is ready that the waiter would claim first.
local function claim_ahead_for(waiter, paused)
  local who, claim_id, expiry = unpack(waiter.asked or {}, 1, 3)
  if type(who) ~= 'string' or type(claim_id) ~= 'string' or type(expiry) ~= 'number'
    or expiry % 1 ~= 0 or expiry < SOON or expiry > LONGEST_CLAIM then
    return
  end
  if redis.call('EXISTS', key('heads')) > 0 then
    for _, name in ipairs(waiter.names) do
      if name == '' or not paused[name] and redis.call('ZSCORE', key('heads'), tostring(name)) then
        return
      end
    end
  end
  return waiter.asked
end

-- Wake one waiter for each job that became ready, and one for each name that has a job due soon, which waiters may not
-- know yet.
local function wake_waiters(ready, soon)
  if not next(ready) and not next(soon) then
    return
  end
  if redis.call('EXISTS', key('waiters')) == 0 then
    return
  end
  local paused = paused_names()
  if paused[''] then
    return
  end
  local function wake_some(name, count)
    for _ = 1, paused[name] and 0 or count do
      local waiter = next_waiter(name)
      if not waiter then
        return
      end
      wake(waiter)
    end
  end
  for name, count in pairs(ready) do
    wake_some(name, count)
  end
  for name in pairs(soon) do
    if not ready[name] then
      wake_some(name, 1)
    end
  end
end
