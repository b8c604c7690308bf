-- include: steps
-- Fences: without uuid, owner and token being the present ones, nothing is changed.

local function holds(job, who, token)
  return job and not newer[job.uuid] and job.state == 'CLAIMED' and job.token == token and job.owner == who
end

-- Load the jobs of these holds ({uuid, who, token, ...} each) and settle them. A claim whose owner key is gone is over,
-- whoever deleted the key.
local function heed(ends)
  local uuids = {}
  for index, item in ipairs(ends) do
    uuids[index] = item[1]
  end
  fetch(uuids)
  local held, keys = {}, {}
  for _, item in ipairs(ends) do
    local job = settle_job(jobs[item[1]])
    if holds(job, item[2], item[3]) then
      held[#held + 1] = job
      keys[#keys + 1] = key('owner', job.uuid)
    end
  end
  if #keys > 0 and redis.call('EXISTS', unpack(keys)) < #keys then
    for index, job in ipairs(held) do
      if job.state == 'CLAIMED' and redis.call('EXISTS', keys[index]) == 0 then
        take_back(job)
      end
    end
  end
end

-- The job, if this hold is the present one; `heed` has loaded it.
local function held_by(item)
  local job = jobs[item[1]]
  return holds(job, item[2], item[3]) and job or nil
end

local function repeated_or_lost(item, kinds)
  local job = recall(item[1])
  return job and has_line(job, kinds, item[3], item[2]) and 'REPEATED' or 'LOST'
end
