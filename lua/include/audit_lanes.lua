-- include: lanes
-- The part of an audit that checks lanes. audit.lua defines `repair`, `report`, `reindex` and CHUNK.

-- The job that holds the slot of a lane, if there is one; of a newer format, it is believed to hold it.
local function holder_of(lane)
  local uuid = redis.call('HGET', key('slots'), lane)
  local job = uuid and load(uuid)
  local is_holder = job and (newer[uuid] or HOLDS[job.state] and job.ties and job.ties.lane == lane)
  return is_holder and job or nil
end

-- Let the first BLOCKED job of a lane be admitted when what has changed is written.
local function open_lane(lane)
  redis.call('HDEL', key('slots'), lane)
  open_lanes[lane] = true
end

-- Of two holders one is BLOCKED from now on; a claim keeps the slot.
local function block_one(job, holder)
  local loser = job.state == 'CLAIMED' and holder.state == 'UNCLAIMED' and holder or job
  redis.call('HSET', key('slots'), job.ties.lane, loser == job and holder.uuid or job.uuid)
  end_claim(loser)
  loser.state = 'BLOCKED'
  reindex(loser)
end

local function check_lane(job)
  local lane = job.ties.lane
  local holder = holder_of(lane)
  if HOLDS[job.state] and holder ~= job then
    report(job.uuid, 'the slot of its lane is held by ' .. (holder and 'another job too' or 'no job'))
    if repair and holder and not newer[holder.uuid] then
      block_one(job, holder)
    elseif repair and not holder then
      redis.call('HSET', key('slots'), lane, job.uuid)
    end
  elseif job.state == 'BLOCKED' then
    local is_waiting = redis.call('ZSCORE', key('lane', lane), member_of(job.uuid, job.sequence)) == job.place
    if not is_waiting then
      report(job.uuid, 'it is BLOCKED, but does not wait for its lane')
    elseif not holder then
      report(job.uuid, 'it is BLOCKED, but the slot of its lane is free')
    end
    if repair and not is_waiting then
      reindex(job)
    end
    if repair and not holder then
      open_lane(lane)
    end
  end
end

-- What holds a slot, and is no job that may.
local function check_slots(cursor)
  local found = redis.call('HSCAN', key('slots'), cursor, 'COUNT', CHUNK)
  for at = 1, #found[2], 2 do
    local lane = found[2][at]
    if not holder_of(lane) then
      report('', 'the slot of the lane ' .. lane .. ' is held by no job of it')
      if repair then
        open_lane(lane)
      end
    end
  end
  return found[1] ~= '0' and found[1]
end
