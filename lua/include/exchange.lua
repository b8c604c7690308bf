-- include: text
-- include: transitions
-- include: limits
-- Exchanges: a job that waits for its lane is claimed for the slot of one that could be claimed, but not by whoever
-- asks: because it has another name, or one that is paused or has as many claims as its limit allows.

-- How many lanes a claim that found too little looks at, and how many heads of names in them.
local MAX_EXCHANGES, MAX_HEADS = 20, 400

-- The names of these (nil: of all) that may be claimed and have BLOCKED jobs, by which jobs can be claimed in exchange.
local function blocked_names(names, paused)
  local found = {}
  for _, name in ipairs(names or redis.call('ZRANGE', key('names'), 0, MAX_SKIPPED - 1)) do
    if not paused[name] and redis.call('EXISTS', state_index('BLOCKED', name)) == 1 then
      found[#found + 1] = name
    end
  end
  return found
end

-- The first BLOCKED job of a lane that has one of these names, if there is one.
local function first_blocked(lane, names)
  local best, place
  for _, name in ipairs(names) do
    local head = redis.call('ZRANGE', key('lane', field(lane, name)), 0, 0, 'WITHSCORES')
    local its = tonumber(head[2])
    if its and (not place or its < place or its == place and comes_after(best, head[1])) then
      best, place = head[1], its
    end
  end
  return best and load(string.sub(best, 13))
end

-- The last job of a lane that can be claimed, if there is one.
local function last_claimable_of(lane)
  local last = redis.call('ZRANGE', key('held', lane), -1, -1)[1]
  local job = last and load(string.sub(last, 13))
  return job and job.state == 'UNCLAIMED' and not newer[job.uuid] and job
end

-- Claim up to `most` jobs of these names in exchange, by `claim_one`. Looks at some lanes, beginning with that of the
-- rank `from` among those with BLOCKED jobs; returns the rank with which to begin the next time.
local function exchange(names, most, from, claim_one)
  local paused, count, rooms = paused_names()
  local wanted = (paused[''] or not names and count == 0) and {} or blocked_names(names, paused)
  if #wanted == 0 then
    return 0
  end
  local is_wanted = {}
  for _, name in ipairs(names or {}) do
    is_wanted[name] = true
  end
  local number = math.max(1, math.min(MAX_EXCHANGES, math.floor(MAX_HEADS / #wanted)))
  local lanes = redis.call('ZRANGE', key('blocked_lanes'), from, from + number - 1)
  fetch_limits(lanes)

  -- Claim one job of a lane, if there is one.
  local function exchange_in(lane)
    local holder = last_claimable_of(lane)
    local is_stuck = holder and (paused[holder.name] or names and not is_wanted[holder.name])
    local job = is_stuck and first_blocked(lane, wanted)
    if not (job and job.state == 'BLOCKED' and job.lane == lane) or newer[job.uuid] or paused[job.name] then
      return false
    end
    withdraw(holder)
    admit(job)
    claim_one(job)
    write_back()
    if rooms[job.name] then
      rooms[job.name] = rooms[job.name] - 1
      paused[job.name] = rooms[job.name] <= 0
    end
    return true
  end

  local left = most
  for _, lane in ipairs(lanes) do
    for _ = 1, lane_limits[lane].is_strict and 0 or left do
      if not exchange_in(lane) then
        break
      end
      left = left - 1
    end
  end
  return #lanes == number and from + number or 0
end
