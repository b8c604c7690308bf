-- include: board
-- A waiter is armed: it stands in `waiters` with the names that it waits for ('' is any), in `armed` with the moment
-- until which it sleeps, and in `waiting:NAME` of each name. One claimable job wakes one waiter; a client that is not
-- subscribed any more is skipped.

local function disarm(id)
  local names = redis.call('HGET', key('waiters'), id)
  if not names then
    return
  end
  redis.call('HDEL', key('waiters'), id)
  redis.call('ZREM', key('armed'), id)
  local readable, list = pcall(cmsgpack.unpack, names)
  for _, name in ipairs(readable and type(list) == 'table' and list or {}) do
    redis.call('ZREM', key('waiting', tostring(name)), id)
  end
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

  local function wake(name, count)
    for _, wanted in ipairs({name, ''}) do
      for _ = 1, redis.call('ZCARD', key('waiting', wanted)) do
        local id = count > 0
          and redis.call('ZRANGEBYSCORE', key('waiting', wanted), now_text, '+inf', 'LIMIT', '0', '1')[1]
        if not id then
          break
        end
        redis.call('ZREM', key('waiting', wanted), id)
        disarm(id)
        local client = string.match(id, '^[^/]*')
        if redis.call('SPUBLISH', key('wake', client), id) > 0 then
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
