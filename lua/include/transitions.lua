-- include: writeback
-- The transitions of a job, as jobboard/backends/lifecycle.py has them for other stores.

local function is_exhausted(job)
  return job.max_attempts ~= nil and job.attempts >= job.max_attempts
end

-- The reason of a job that goes to the trash because its attempts are used up.
local function exhausted_reason(job, reason)
  local text = 'all ' .. decimal(job.max_attempts) .. ' attempts are used up'
  return reason and reason ~= '' and text .. '; the last: ' .. reason or text
end

local function end_claim(job)
  if job.state == 'CLAIMED' and job.claim_id then
    local owner_key = owner_key_of(job.claim_id)
    owner_key.ended = owner_key.ended + 1
  end
  job.owner, job.claim_id, job.expires = nil, nil, nil
end

-- Let a job wait for its delay, if that is not over, at the place of its end; returns whether it does.
local function wait_for_delay(job)
  local is_delayed = job.run_at and job.run_at > now
  if is_delayed then
    job.state, job.place = 'DELAYED', place_of(job.run_at, job.priority)
  end
  return is_delayed
end

-- Let a job wait for its lane, or be claimable if it has none.
local function join(job, place)
  job.state, job.place, job.since = job.lane and 'BLOCKED' or 'UNCLAIMED', place, nil
end

-- Let a delayed job be claimable, or wait for its lane; in a strict one a retry has kept its slot.
local function end_delay(job, place)
  local limit = job.token ~= 0 and limit_of(job)
  if limit and limit.is_strict and not limit.rate then
    job.state, job.place = 'UNCLAIMED', place
  else
    join(job, place)
  end
end

-- The token is the moment of the claim: so it grows even after a failover that lost the job's last claims.
local function claim(job, who, claim_id, expiry)
  job.state = 'CLAIMED'
  job.attempts = job.attempts + 1
  job.token = math.max(job.token + 1, now)
  job.owner, job.claim_id = who, claim_id
  job.expires = expiry and now + expiry or nil
  local owner_key = owner_key_of(claim_id)
  owner_key.begun = owner_key.begun + 1
  if job.progress then
    redis.call('HDEL', key('progress'), job.uuid)
    job.progress = nil
  end
  record_event(job, 'CLAIMED', who, job.token)
end

local function requeue(job, kind, reason, run_at)
  local who = job.owner
  end_claim(job)
  job.run_at = run_at or job.run_at
  if not wait_for_delay(job) then
    local limit = limit_of(job)
    if limit and limit.rate then
      -- Another start: the rate must let it.
      block_again(job)
    else
      -- It keeps its place, and its slot of the lane.
      job.state = 'UNCLAIMED'
    end
  end
  record_event(job, kind, who, job.token, reason)
end

local function trash(job, who, token, reason)
  end_claim(job)
  job.state = 'TRASHED'
  record_event(job, 'TRASHED', who, token, reason)
end

-- A cancelled job is hidden at once, and remembered for repeated requests.
local function cancel(job, who, token, reason)
  end_claim(job)
  job.state, job.cancel, job.retained = 'COMPLETE', true, now
  record_event(job, 'CANCELLED', who, token, reason)
end

local function consume(job, result, retention)
  local who = job.owner
  end_claim(job)
  job.state, job.owner = 'COMPLETE', who
  job.retained = now + retention
  results[job.uuid] = result
  record_event(job, 'CONSUMED', job.owner, job.token)
end

local function expire(job)
  local who, token = job.owner, job.token
  job.reason = "the claim of '" .. tostring(who) .. "' expired"
  if not job.cancel and not is_exhausted(job) then
    requeue(job, 'EXPIRED', job.reason)
    return
  end
  record_event(job, 'EXPIRED', who, token, job.reason)
  if job.cancel then
    cancel(job, nil, token)
  else
    job.reason = exhausted_reason(job, job.reason)
    job.error = job.reason
    trash(job, nil, token, job.reason)
  end
end

-- Apply to one job what time has changed.
local function expire_or_promote(job)
  if not job or newer[job.uuid] or not due_at(job) or due_at(job) > now then
    return job
  end
  if job.state == 'CLAIMED' then
    expire(job)
  else
    end_delay(job, job.place)
    record_event(job, 'DUE')
  end
  return job
end

-- Why a claim ended. If the job failed and no error is given, the reason is the error too.
local function set_reason(job, reason, fault, as_error)
  job.reason = reason
  if fault then
    job.error = fault
  elseif as_error and reason then
    job.error = reason
  end
end
