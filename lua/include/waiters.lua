-- include: board
-- include: paused
-- include: waiter
-- The waiters of many jobs.

-- How many waiters a script looks at for the exchanges in a lane, and how many of their names in all lanes.
local MAX_WAITERS, MAX_WAITED = 20, 400

-- Returns the waiter's claim request.
local function disarm(id)
  local names, asked = armed_with(id)
  if names then
    forget(id, names)
  end
  return asked
end

-- Whether the client of a waiter is subscribed; if not, the waiter is forgotten.
local function is_there(waiter)
  local is_subscribed = redis.call('PUBSUB', 'SHARDNUMSUB', waiter.channel)[2] > 0
  if not is_subscribed then
    forget(waiter.id, waiter.names)
  end
  return is_subscribed
end

-- The first one whose client is subscribed.
local function next_waiter(name)
  for _ = 1, MAX_SKIPPED do
    local waiter = first_waiter(name)
    if not waiter or is_there(waiter) then
      return waiter
    end
  end
end

-- Whether nobody will claim a job of a name soon: it is paused or at its limit, or no claim of it holds.
local function is_stuck(name, paused)
  return paused[name] or redis.call('EXISTS', state_index('CLAIMED', name)) == 0
end

-- Wake a waiter for each of these jobs, which have a slot of their lane, if nobody will claim it: then another job of
-- the lane is claimed in exchange. `unmet` has how many jobs of each name found no waiter, and `left` how many claims
-- of it have ended; who ended one is about to claim.
local function wake_for_exchange(offered, unmet, left, paused)
  local ids, waited, is_vain = nil, MAX_WAITED, {}

  local function may_claim_in(lane, names)
    local sets, most = {}, math.min(#names, waited)
    waited = waited - math.max(1, most)
    for at = 1, most do
      local name = tostring(names[at])
      if name == '' then
        return true
      elseif not paused[name] then
        sets[#sets + 1] = key('lane', field(lane, name))
      end
    end
    return #sets > 0 and redis.call('EXISTS', unpack(sets)) > 0
  end

  local function wake_for(lane)
    local moment = string.format('%.0f', now)
    ids = ids or redis.call('ZRANGEBYSCORE', key('armed'), moment, '+inf', 'LIMIT', 0, MAX_WAITERS)
    for _, id in ipairs(waited > 0 and ids or {}) do
      local names, asked = armed_with(id)
      local waiter = {id = id, channel = channel_of(id), names = names, asked = asked}
      if names and may_claim_in(lane, names) and is_there(waiter) then
        wake(waiter)
        return true
      end
    end
    return false
  end

  for _, job in ipairs(offered) do
    local name, lane = job.name, job.lane
    if unmet[name] and unmet[name] > 0 and not is_vain[lane] then
      unmet[name] = unmet[name] - 1
      if (paused[name] or not left[name]) and is_stuck(name, paused)
        and redis.call('ZCARD', key('lane', lane)) > redis.call('ZCARD', key('lane', field(lane, name))) then
        is_vain[lane] = not wake_for(lane)
      end
    end
  end
end

-- Wake one waiter for each job that became ready, and one for each name that has a job due soon, which waiters may not
-- know yet. `left` has how many claims of each name have ended: if it has a limit, so many more of it can be claimed.
-- `offered` has those of these jobs that have a slot of a lane which is not strict.
local function wake_waiters(ready, soon, left, offered)
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
  local unmet = {}
  local function wake_some(name, count)
    unmet[name] = count
    for _ = 1, paused[name] and 0 or count do
      local waiter = next_waiter(name)
      if not waiter then
        return
      end
      wake(waiter)
      unmet[name] = unmet[name] - 1
    end
  end
  for name, count in pairs(ready) do
    wake_some(name, count)
  end
  if #offered > 0 then
    wake_for_exchange(offered, unmet, left, paused)
  end
  for name in pairs(soon) do
    if not ready[name] then
      wake_some(name, 1)
    end
  end
end
