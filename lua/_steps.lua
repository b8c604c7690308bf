-- include: changes
-- The steps from state to state.

local function is_used_up(job)
  return job.max_attempts ~= nil and job.attempts >= job.max_attempts
end

-- Says why a job goes to the trash by itself.
local function used_up(job, reason)
  local said = 'all ' .. decimal(job.max_attempts) .. ' attempts are used up'
  return reason and reason ~= '' and said .. '; the last: ' .. reason or said
end

local function end_claim(job)
  job.owner, job.claim_id, job.expires = nil, nil, nil
end

local function settle_state(job)
  job.state = job.run_at and job.run_at > now and 'DELAYED' or 'UNCLAIMED'
end

-- The token grows with the clock, so that it still does after a failover that has lost the last claims of a job.
local function grant(job, who, claim_id, expiry)
  job.state = 'CLAIMED'
  job.attempts = job.attempts + 1
  job.token = math.max(job.token + 1, now)
  job.owner, job.claim_id = who, claim_id
  job.expires = expiry and now + expiry or nil
  if job.progress then
    redis.call('HDEL', key('progress'), job.uuid)
    job.progress = nil
  end
  tell(job, 'CLAIMED', who, job.token)
end

local function put_back(job, kind, reason, run_at)
  local who = job.owner
  end_claim(job)
  job.run_at = run_at or job.run_at
  settle_state(job)
  tell(job, kind, who, job.token, reason)
end

local function discard(job, who, token, reason)
  end_claim(job)
  job.state = 'TRASHED'
  tell(job, 'TRASHED', who, token, reason)
end

-- A cancelled job is shown to nobody any more, and remembered for a while.
local function take_off(job, who, token, reason)
  end_claim(job)
  job.state, job.cancel, job.retained = 'COMPLETE', true, now
  tell(job, 'CANCELLED', who, token, reason)
end

local function complete(job, result, retention)
  job.state = 'COMPLETE'
  job.claim_id, job.expires = nil, nil
  job.retained = retention and now + retention or nil
  results[job.uuid] = result
  tell(job, 'CONSUMED', job.owner, job.token)
end

local function take_back(job)
  local who, token = job.owner, job.token
  job.reason = "the claim of '" .. tostring(who) .. "' expired"
  if not job.cancel and not is_used_up(job) then
    put_back(job, 'EXPIRED', job.reason)
    return
  end
  tell(job, 'EXPIRED', who, token, job.reason)
  if job.cancel then
    take_off(job, nil, token)
  else
    job.reason = used_up(job, job.reason)
    job.error = job.reason
    discard(job, nil, token, job.reason)
  end
end

-- Bring one job up to this moment.
local function settle_job(job)
  if not job or newer[job.uuid] or not due(job) or due(job) > now then
    return job
  end
  if job.state == 'CLAIMED' then
    take_back(job)
  else
    job.state = 'UNCLAIMED'
    tell(job, 'DUE')
  end
  return job
end

-- Write down why a claim ended; a reason is the error too if there is none and the job failed.
local function explain(job, reason, fault, as_error)
  job.reason = reason
  if fault then
    job.error = fault
  elseif as_error and reason then
    job.error = reason
  end
end
