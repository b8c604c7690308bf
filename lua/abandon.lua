#!lua flags=allow-oom
-- End claims, and put the jobs back on the board, now or for later.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, who, token, delay in microseconds or nil, run_at or nil, reason or nil, error or nil,
--       counted, the signal that it waits for or nil], ...]
-- Returns: OK, and for each DONE, REPEATED, LOST or what is lost (see fence.lua)
-- A repeat finds the token in the history.
--
-- include: expire_and_promote
-- include: fence

expire_and_promote('50')

-- End a claim until a signal is sent, or this moment; at once if that is there.
local function wait_for_signal(job, signal, reason, run_at)
  local who = job.owner
  job.run_at = nil
  -- Without keys of its own it has none but those of an earlier job of its uuid, which is forgotten.
  local was_sent = job.has_keys and redis.call('HEXISTS', key('signals', job.uuid), signal) == 1
  if run_at and run_at <= now or was_sent then
    requeue(job, 'ABANDONED', reason)
    return
  end
  end_claim(job)
  job.state, job.run_at, job.place = 'BLOCKED', run_at, place_of(now, job.priority)
  job.signal, job.since, job.is_tied = signal, nil, true
  record_event(job, 'ABANDONED', who, job.token, reason)
end

local function abandon(job, item)
  local who, token, reason, counted = item[2], item[3], item[6], item[8]
  set_reason(job, reason, item[7], counted)
  if job.cancel then
    cancel(job, who, token, reason)
  elseif counted and is_exhausted(job) then
    record_event(job, 'ABANDONED', who, token, reason)
    job.reason = exhausted_reason(job, reason)
    trash(job, who, token, job.reason)
  else
    if not counted then
      job.attempts = job.attempts - 1
    end
    local run_at = item[4] and now + item[4] or item[5]
    if item[9] then
      wait_for_signal(job, item[9], reason, run_at)
    else
      requeue(job, 'ABANDONED', reason, run_at)
    end
  end
end

local ends = cmsgpack.unpack(ARGV[1])
check_fences(ends)
local answers = {}
for index, item in ipairs(ends) do
  local job = fenced_job(item)
  if job then
    abandon(job, item)
  end
  answers[index] = job and 'DONE' or repeated_or_lost(item, {ABANDONED = true, CANCELLED = true})
end
write_back()
return {'OK', answers}
