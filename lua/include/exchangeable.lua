-- include: lane_scores
-- include: limits
-- include: records
-- include: text
-- Which jobs of a lane may be exchanged: see exchange.lua.

-- How many lanes a search looks at, and how many heads of names in them.
local MAX_EXCHANGES, MAX_HEADS = 20, 400

-- Whether whoever asks for these names (nil: for all) may claim a job of a name, while those are paused.
local function granted(names, paused)
  local asked = {}
  for _, name in ipairs(names or {}) do
    asked[name] = true
  end
  return function(name) return not paused[name] and (not names or asked[name]) end
end

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

-- The lanes at which a search by these names looks, beginning with that of the rank `from` among those with BLOCKED
-- jobs, and after the last one with the first; and the rank with which to begin the next time.
local function lanes_from(from, names)
  local most = math.max(1, math.min(MAX_EXCHANGES, math.floor(MAX_HEADS / #names)))
  local lanes = redis.call('ZRANGE', key('blocked_lanes'), from, from + most - 1)
  local left, reached = most - #lanes, from + #lanes
  if left > 0 then
    local first = from > 0 and redis.call('ZRANGE', key('blocked_lanes'), 0, math.min(left, from) - 1) or {}
    for _, lane in ipairs(first) do
      lanes[#lanes + 1] = lane
    end
    reached = #first
  end
  fetch_limits(lanes)
  return lanes, reached
end

-- The last job of a lane that can be claimed, if there is one.
local function last_claimable_of(lane)
  local last = redis.call('ZRANGE', key('held', lane), -1, -1, 'WITHSCORES')
  local job = last[2] and tonumber(last[2]) > tonumber(CLAIMED_SCORE) and load(string.sub(last[1], 13))
  return job and job.state == 'UNCLAIMED' and not newer[job.uuid] and job
end

-- A job of a lane that could be claimed, but not by whoever asks, and the first one of these names, which could be
-- claimed for its slot; nothing if there are no such two.
local function exchangeable_in(lane, names, may_claim)
  local holder = last_claimable_of(lane)
  local job = holder and not may_claim(holder.name) and first_blocked(lane, names)
  if job and job.state == 'BLOCKED' and job.lane == lane and not newer[job.uuid] and may_claim(job.name) then
    return holder, job
  end
end
