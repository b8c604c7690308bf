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

-- Let a job wait for its parents, else for its lane, or be claimable.
local function join(job, place)
  local is_blocked = job.lane or job.has_parents or job.signal
  job.state, job.place, job.since = is_blocked and 'BLOCKED' or 'UNCLAIMED', place, nil
end

-- Let a delayed job be claimable, or wait for its lane; in a strict one a retry has kept its slot.
local function end_delay(job, place)
  local limit = job.token ~= 0 and limit_of(job)
  local is_kept = limit and limit.is_strict
  if is_kept and not limit.rate then
    job.state, job.place = 'UNCLAIMED', place
    -- If the lane is paused now, or before its claim, nothing of its priority passes it once the pause is over.
    job.since = job.created
  elseif is_kept then
    -- Another start, which the rate must let. Nothing of its priority was to run before it, or passes it now.
    join(job, place_of(job.created, job.priority))
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
  if job.has_parents then
    -- Its owner has let it wait for other jobs. While it does, it holds no slot, also none of a strict lane.
    join(job, place_of(now, job.priority))
    record_event(job, kind, who, job.token, reason)
    return
  end
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

-- How a job stands as a parent: an outcome, its name, and its result, unless that is too long for an edge; and whether
-- it is.
local function outcome_of(job)
  if is_live(job) then
    return {'OPEN', job.name, false, false}
  elseif job.state == 'TRASHED' then
    return {'FAILED', job.name, false, false}
  elseif job.cancel and not job.owner then
    return {'GONE', job.name, false, false}
  end
  local archived = finished[job.uuid] or {}
  local result = results[job.uuid] or archived[4] or false
  local is_cut = result and #result > MAX_EDGE_RESULT or archived[5] or false
  return {'DONE', job.name, not is_cut and result, is_cut}
end

-- Let follow what does from the end of a job with ties, or from its return: its children learn of it, and its posting
-- wants something to be posted.
local function follow_end(job, posting)
  if job.has_children then
    table.insert(relatives.steps, {job.uuid, unpack(outcome_of(job))})
  end
  if posting then
    table.insert(relatives.posts, {job, posting})
  end
  relatives.is_awaited = relatives.is_awaited or job.has_children or posting
end

local function trash(job, who, token, reason)
  end_claim(job)
  job.state = 'TRASHED'
  if job.is_tied then
    follow_end(job, job.on_trashed)
  end
  record_event(job, 'TRASHED', who, token, reason)
end

-- A cancelled job is hidden at once, and remembered for repeated requests.
local function cancel(job, who, token, reason)
  end_claim(job)
  job.state, job.cancel, job.retained = 'COMPLETE', true, now
  if job.is_tied then
    follow_end(job)
  end
  record_event(job, 'CANCELLED', who, token, reason)
end

local function consume(job, result, retention)
  local who = job.owner
  end_claim(job)
  job.state, job.owner = 'COMPLETE', who
  job.retained = math.max(now + retention, job.key_until or 0)
  results[job.uuid] = result
  if job.is_tied then
    follow_end(job, job.on_complete)
  end
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

-- Why a claim ended. If the job failed and no error is given, the reason is the error too.
local function set_reason(job, reason, fault, as_error)
  job.reason = reason
  if fault then
    job.error = fault
  elseif as_error and reason then
    job.error = reason
  end
end

-- Let a job wait no longer for its signal.
local function end_signal(job, place)
  job.signal, job.run_at = nil, nil
  join(job, place)
  moved[job.uuid] = true
end

-- Apply to one job what time has changed.
local function expire_or_promote(job)
  if not job or newer[job.uuid] or not due_at(job) or due_at(job) > now then
    return job
  end
  if job.state == 'CLAIMED' then
    expire(job)
  elseif job.start_by and job.token == 0 and job.start_by <= now then
    set_reason(job, 'it had not begun by the moment that start_by gives', nil, true)
    trash(job, nil, nil, job.reason)
  else
    if job.state == 'DELAYED' then
      end_delay(job, job.place)
    else
      end_signal(job, place_of(now, job.priority))
    end
    record_event(job, 'DUE')
  end
  return job
end

-- include: relatives
