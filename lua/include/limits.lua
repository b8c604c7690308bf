-- include: prelude
-- The limits of lanes and names: `limits` (a hash) has each by its scope ("lane" or "name"), a line break and its
-- pattern or name, as jobboard/backends/limits.py packs it. Those of names are in `paused` too: see paused.lua.

-- What holds for the lanes that this script has asked about.
local lane_limits = {}
local UNLIMITED = {running = math.huge}

-- The pattern of all lanes that have the same text before their last colon.
local function prefix_of(lane)
  local prefix = string.match(lane, '^(.+):[^:]*$')
  return prefix and prefix .. ':*'
end

-- A stored limit; nil if there is none, or if it can't be read, which an audit finds.
local function decode_limit(value)
  local is_readable, limit = pcall(cmsgpack.unpack, value or '')
  if not is_readable or type(limit) ~= 'table' then
    return nil
  end
  local rate = limit.rate
  local is_rate = type(rate) == 'table' and is_number(rate[1]) and is_number(rate[2]) and is_number(rate[3])
  if (not limit.running or is_number(limit.running)) and (not rate or is_rate)
    and (not limit.paused_until or is_number(limit.paused_until)) then
    return limit
  end
end

local function limits_more_than_pause(limit)
  return limit and (limit.running or limit.rate or limit.order == 'strict')
end

-- The moment at which a pause ends; one without an end has none that ever comes.
local function pause_end(limit)
  return limit and limit.paused and (limit.paused_until or math.huge) * 1000000
end

-- What holds for a lane: its own limit, or else that of its prefix; a pause of either holds in any case.
local function combine_limits(exact, of_prefix)
  local limit = limits_more_than_pause(exact) and exact or limits_more_than_pause(of_prefix) and of_prefix
  local ends, its_end = pause_end(exact), pause_end(of_prefix)
  if not limit and not ends and not its_end then
    return UNLIMITED
  end
  local paused_until = math.max(ends or 0, its_end or 0)
  -- Moments are rounded.
  local is_paused = paused_until > now + 1
  limit = limit or {}
  local rate = limit.rate and {interval = limit.rate[2] * 1000000 / limit.rate[1], burst = limit.rate[3]}
  return {
    running = is_paused and 0 or limit.running or math.huge, is_strict = limit.order == 'strict', rate = rate,
    paused_until = is_paused and paused_until < math.huge and paused_until,
  }
end

local function fetch_limits(lanes)
  local missing, wanted = {}, {}
  for _, lane in ipairs(lanes) do
    if not lane_limits[lane] then
      lane_limits[lane] = true
      missing[#missing + 1] = lane
      wanted[#wanted + 1] = field('lane', lane)
      wanted[#wanted + 1] = field('lane', prefix_of(lane) or lane)
    end
  end
  if #missing > 0 then
    local values = redis.call('HMGET', key('limits'), unpack(wanted))
    for number, lane in ipairs(missing) do
      lane_limits[lane] = combine_limits(decode_limit(values[2 * number - 1]), decode_limit(values[2 * number]))
    end
  end
end

-- What holds for a job's lane, as {running, is_strict, rate, paused_until}; nil if it has no lane.
local function limit_of(job)
  if job.lane then
    fetch_limits({job.lane})
    return lane_limits[job.lane]
  end
end
