-- include: lanes
-- include: name_limits
-- The part of an audit that checks lanes. audit.lua defines `repair`, `report`, `reindex` and CHUNK.

local SETS_OF_LANES = {'held', 'lane', 'retrying'}

local function in_lane(set, job)
  return redis.call('ZSCORE', key(set, job.lane), member_of(job.uuid, job.sequence))
end

-- Whether the sets of its lane have a job as its record says.
local function is_in_its_lane(job)
  local set = lane_set_of(job)
  for _, other in ipairs(SETS_OF_LANES) do
    local score = in_lane(other, job)
    if (score or nil) ~= (other == set and score_in_lane(job) or nil) then
      return false
    end
  end
  local of_name = redis.call('ZSCORE', key('lane', field(job.lane, job.name)), member_of(job.uuid, job.sequence))
  return (of_name or nil) == (set == 'lane' and job.place or nil)
    and (not set or redis.call('ZSCORE', key('lanes'), job.lane) ~= false)
end

-- Let the sets of its lane have a job anew.
local function leave_lane(job)
  for _, set in ipairs(SETS_OF_LANES) do
    redis.call('ZREM', key(set, job.lane), member_of(job.uuid, job.sequence))
  end
  redis.call('ZREM', key('lane', field(job.lane, job.name)), member_of(job.uuid, job.sequence))
  -- It has waited before, if it waits.
  lane_sets[job.uuid], is_withdrawn[job.uuid] = nil, job.state == 'BLOCKED' or nil
end

local reindex

local function check_lane(job)
  if not is_in_its_lane(job) then
    report(job.uuid, 'its lane does not list it as ' .. job.state)
    if repair then
      reindex(job)
    end
  end
end

-- Whether a set of a lane has a member that is no such job of the lane.
local function is_stray(lane, set, member)
  local uuid = string.sub(member, 13)
  local job = load(uuid)
  return not newer[uuid]
    and not (job and job.lane == lane and lane_set_of(job) == set and in_lane(set, job))
end

-- Check some members of a set; returns how many there were, and how many were removed.
local function check_members(lane, set, rank)
  local members = redis.call('ZRANGE', key(set, lane), rank, rank + CHUNK - 1)
  local removed = 0
  fetch(uuids_of(members))
  for _, member in ipairs(members) do
    if is_stray(lane, set, member) then
      report('', 'the lane ' .. lane .. ' lists a job that it does not have: ' .. string.sub(member, 13))
      removed = removed + (repair and redis.call('ZREM', key(set, lane), member) or 0)
    end
  end
  return #members, removed
end

-- Whether a lane may not be yet as its limits say: somebody is at work on one of them, or was killed.
local function are_limits_pending(lane)
  local found = redis.call('HMGET', key('limits'), field('lane', lane), field('lane', prefix_of(lane) or lane))
  local exact, of_prefix = decode_limit(found[1]), decode_limit(found[2])
  return exact and exact.pending or of_prefix and of_prefix.pending
end

-- What of a lane contradicts its limit, unless that changes, or a look at it is due anyway.
local function check_slots(lane)
  if are_limits_pending(lane) then
    return
  end
  local timer = redis.call('ZSCORE', key('delayed'), lane_timer(lane))
  fetch_limits({lane})
  local limit, blocked = lane_limits[lane], redis.call('ZCARD', key('lane', lane))
  local claimable = redis.call('ZCOUNT', key('held', lane), '(' .. CLAIMED_SCORE, '+inf')
  local held = redis.call('ZCARD', key('held', lane))
  if limit.is_strict then
    held = held + redis.call('ZCARD', key('retrying', lane))
  end
  local problem
  if claimable > 0 and held > limit.running then
    problem = 'the lane ' .. lane .. ' has ' .. held .. ' jobs that are claimable or claimed, of ' .. limit.running
  elseif blocked > 0 and held < limit.running and not limit.rate then
    problem = 'a slot of the lane ' .. lane .. ' is free, and ' .. blocked .. ' of its jobs are BLOCKED'
  elseif blocked ~= tonumber(redis.call('ZSCORE', key('blocked_lanes'), lane) or 0) then
    problem = 'the lane ' .. lane .. ' is listed with another number of BLOCKED jobs'
  elseif (limit.rate and held < limit.running or limit.paused_until) and blocked > 0 and not timer then
    problem = 'the lane ' .. lane .. ' has BLOCKED jobs, and no moment of its next start'
  end
  if problem and not (timer and tonumber(timer) <= now) then
    report('', problem)
    if repair then
      has_lanes, asked_lanes[lane] = true, true
      redis.call('ZREM', key('blocked_lanes'), lane)
    end
  end
end

-- The cursor is a lane, a number of a set of it, and a rank, if the set goes on there.
local function check_lanes(cursor)
  local lane, number, rank = '', #SETS_OF_LANES, nil
  if cursor ~= '0' then
    lane, number, rank = unpack(cmsgpack.unpack(cursor))
  end
  for _ = 1, CHUNK / 10 do
    if not rank and number == #SETS_OF_LANES then
      lane, number = redis.call('ZRANGEBYLEX', key('lanes'), '(' .. lane, '+', 'LIMIT', 0, 1)[1], 0
      if not lane then
        return false
      end
    end
    number = rank and number or number + 1
    local count, removed = check_members(lane, SETS_OF_LANES[number], rank or 0)
    rank = count == CHUNK and (rank or 0) + count - removed or nil
    if number == #SETS_OF_LANES and not rank then
      check_slots(lane)
    end
    if rank then
      break
    end
  end
  return cmsgpack.pack({lane, number, rank})
end

-- Limits that can't be read.
local function check_limits()
  local found = redis.call('HGETALL', key('limits'))
  for at = 1, #found, 2 do
    if not decode_limit(found[at + 1]) then
      report('', 'a limit can not be read: ' .. string.gsub(found[at], '\n', ' '))
      if repair then
        quarantine('limits', found[at], found[at + 1])
        local name = string.match(found[at], '^name\n(.*)$')
        if name then
          limit_name(name, nil)
        end
      end
    end
  end
  return false
end
