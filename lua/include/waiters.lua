-- include: board
-- include: paused
-- include: waiter
-- The waiters of many jobs.

-- Returns the waiter's claim request.
local function disarm(id)
  local names, asked = armed_with(id)
  if names then
    forget(id, names)
  end
  return asked
end

-- The first one whose client is subscribed; those before it are forgotten.
local function next_waiter(name)
  for _ = 1, MAX_SKIPPED do
    local waiter = first_waiter(name)
    if not waiter or redis.call('PUBSUB', 'SHARDNUMSUB', waiter.channel)[2] > 0 then
      return waiter
    end
    forget(waiter.id, waiter.names)
  end
end

-- Wake one waiter for each job that became ready, and one for each name that has a job due soon, which waiters may not
-- know yet. `left` has how many claims of each name have ended: if it has a limit, so many more of it can be claimed.
local function wake_waiters(ready, soon, left)
  if not next(ready) and not next(soon) and not next(left) then
    return
  end
  if redis.call('EXISTS', key('waiters')) == 0 then
    return
  end
  local paused, _, rooms = paused_names()
  if paused[''] then
    return
  end
  for name, count in pairs(left) do
    if rooms[name] and redis.call('ZSCORE', key('heads'), name) then
      ready[name] = (ready[name] or 0) + math.min(count, rooms[name])
    end
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
