-- include: ownerless
-- include: transitions
-- Fences: only the present uuid, owner and token of a claim may change the job.

local function holds_claim(job, who, token)
  return job and not newer[job.uuid] and job.state == 'CLAIMED' and job.token == token and job.owner == who
end

-- Load the jobs of these fences ({uuid, who, token, ...} each), and apply what time has changed. A claim is over too if
-- its owner key is gone, whoever deleted that.
local function check_fences(ends)
  local uuids = {}
  for index, item in ipairs(ends) do
    uuids[index] = item[1]
  end
  fetch(uuids)
  local held = {}
  for _, item in ipairs(ends) do
    local job = expire_or_promote(jobs[item[1]])
    if holds_claim(job, item[2], item[3]) then
      held[#held + 1] = job
    end
  end
  expire_ownerless(held)
end

-- The job, if this fence is the present one; `check_fences` has loaded it.
local function fenced_job(item)
  local job = jobs[item[1]]
  return holds_claim(job, item[2], item[3]) and job or nil
end

-- The answer about a claim that does not hold: how the job stands, if it is there, and who has claimed it, if anybody.
local function lost(job)
  return job and {job.state, job.state == 'CLAIMED' and job.owner or nil} or 'LOST'
end

local function repeated_or_lost(item, kinds)
  local job = load_any(item[1])
  return job and has_entry(job, kinds, item[3], item[2]) and 'REPEATED' or lost(job)
end
