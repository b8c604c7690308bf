-- include: board
-- A waiter is armed: it stands in `waiters` with the names that it waits for ('' is any) and its claim request, if it
-- has one; in `armed` with the moment until which it sleeps; and in `waiting:NAME` of each name. One claimable job
-- wakes one waiter; a client that is not subscribed any more is skipped.

-- The names that an armed waiter waits for, and its claim request.
local function armed_with(id)
  local armed = redis.call('HGET', key('waiters'), id)
  if armed then
    local readable, names, asked = pcall(cmsgpack.unpack, armed)
    return readable and type(names) == 'table' and names or {}, readable and type(asked) == 'table' and asked or nil
  end
end

-- Returns the waiter's claim request.
local function disarm(id)
  local names, asked = armed_with(id)
  if not names then
    return
  end
  redis.call('HDEL', key('waiters'), id)
  redis.call('ZREM', key('armed'), id)
  for _, name in ipairs(names) do
    redis.call('ZREM', key('waiting', tostring(name)), id)
  end
  return asked
end

-- What wakes a waiter: its id. If it has a claim request, the claim id follows, and the job that `claim` claims for it.
-- No fault of the claim may end the script, which has made the job ready.
local function message_for(id, asked, claim)
  if not asked then
    return id
  end
  local rows = {}
  if claim then
    local is_fine, claimed = pcall(claim, asked)
    rows = is_fine and claimed and claimed[2] or rows
  end
  return cmsgpack.pack(id, asked[2], unpack(rows))
end

-- Wake one waiter for each job that became ready, and one for each name that has a job due soon, which waiters may not
-- know yet. `claim`, if it is given, claims at once what a waiter asks for.
local function wake_waiters(ready, soon, claim)
  if not next(ready) and not next(soon) then
    return
  end
  if redis.call('EXISTS', key('waiters')) == 0 then
    return
  end

  local function wake(name, count)
    for _, wanted in ipairs({name, ''}) do
      for _ = 1, redis.call('ZCARD', key('waiting', wanted)) do
        local id = count > 0
          and redis.call('ZRANGEBYSCORE', key('waiting', wanted), now_text, '+inf', 'LIMIT', '0', '1')[1]
        if not id then
          break
        end
        redis.call('ZREM', key('waiting', wanted), id)
        local asked, channel = disarm(id), key('wake', string.match(id, '^[^/]*'))
        if redis.call('PUBSUB', 'SHARDNUMSUB', channel)[2] > 0 then
          redis.call('SPUBLISH', channel, message_for(id, asked, claim))
          count = count - 1
        end
      end
    end
  end

  local paused = {}
  for _, name in ipairs(redis.call('SMEMBERS', key('paused'))) do
    paused[name] = true
  end
  if paused[''] then
    return
  end
  for name, count in pairs(ready) do
    if not paused[name] then
      wake(name, count)
    end
  end
  for name in pairs(soon) do
    if not paused[name] and not ready[name] then
      wake(name, 1)
    end
  end
end
