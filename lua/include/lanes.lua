-- include: events
-- Lanes: of the jobs whose ties name a lane, one at most is UNCLAIMED or CLAIMED. `slots` (a hash) has its uuid by the
-- lane; the BLOCKED ones are members of `lane:LANE`, as of the index of their name.

-- The lanes whose first BLOCKED job may be admitted, once all that has changed is written.
local open_lanes = {}

-- Add to the lists that `write_back` writes what the change of a job with ties does to its lane.
local function update_lane(adds, removals, job, was, member)
  local lane, state = job.ties.lane, job.state
  if was == 'BLOCKED' then
    table.insert(list_in(removals, key('lane', lane)), member)
  end
  if state == 'BLOCKED' then
    local list = list_in(adds, key('lane', lane))
    list[#list + 1], list[#list + 2] = job.place, member
  end
  if HOLDS[state] then
    redis.call('HSETNX', key('slots'), lane, job.uuid)
  else
    open_lanes[lane] = true
    if redis.call('HGET', key('slots'), lane) == job.uuid then
      redis.call('HDEL', key('slots'), lane)
    end
  end
end

-- Let the first BLOCKED job of a lane have its slot, if that is free; what this version must not touch is passed over.
local function admit_next(lane)
  if redis.call('HEXISTS', key('slots'), lane) == 1 then
    return
  end
  for at = 0, MAX_SKIPPED do
    local uuid = uuids_of(redis.call('ZRANGE', key('lane', lane), at, at))[1]
    local job = uuid and load(uuid)
    if job and job.state == 'BLOCKED' and not newer[uuid] then
      job.state, job.place = 'UNCLAIMED', place_of(now, job.priority)
      record_event(job, 'DUE')
    end
    if not uuid or is_changed[uuid] then
      return
    end
  end
end

local function admit_all()
  local lanes = open_lanes
  open_lanes = {}
  for lane in pairs(lanes) do
    admit_next(lane)
  end
end
