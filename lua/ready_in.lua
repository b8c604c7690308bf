#!lua flags=allow-oom
-- Tell when the next job can be claimed. If there is none now, arm the waiter; whatever changes the answer wakes it.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [names or nil for all, the waiter ("client/number") or nil, how long it sleeps at most, with what
--       claim request, as in claim_next.lua, or nil, whether to send an empty message if it is armed, and where the
--       next search for exchanges begins or nil: for who has claimed nothing since his last look, none counts]
-- Returns: MORE (call again), or OK; the microseconds until a job may be claimable (0 is now, -1 unknown); the claim id
--       with which the waiter was armed until now, or false; and how many of the names have BLOCKED jobs, unless a job
--       can be claimed
-- A repeat arms the same waiter again.
--
-- include: look_plainly

local answer = look_plainly(cmsgpack.unpack(ARGV[1]))
if answer then
  return answer
end

-- include: exchangeable
-- include: expire_and_promote
-- include: rescue

if expire_and_promote('100') then
  return {'MORE'}
end
rescue_claims()
forget_gone()

-- While jobs of its names are BLOCKED, a waiter looks this often.
local EXCHANGE_POLL = 1000000
-- Who has ended a claim may claim the next job for so long, before that is claimed by an exchange.
local CLAIM_TIME = 50000
-- Of more names with BLOCKED jobs, no lane with a rate is asked whether it has any of them.
local MAX_NAMES = 20

local request = cmsgpack.unpack(ARGV[1])
local names = request[1]

-- When a job of a wanted name may start, of a lane that is looked at at a moment: now, if one can be claimed in
-- exchange; else then, if the first that waits for the lane is one, or if nobody who waits can claim that, so that
-- another one is exchanged for it. `blocked` are the wanted names with BLOCKED jobs.
local function start_in(lane, look_at, wanted, blocked, paused)
  local member = redis.call('ZRANGE', key('lane', lane), 0, 0)[1]
  local first = member and load(string.sub(member, 13))
  if not first then
    return nil
  end
  local some, may_exchange = {unpack(blocked, 1, math.min(#blocked, MAX_NAMES))}, not limit_of(first).is_strict
  if request[6] and may_exchange and exchangeable_in(lane, some, wanted) then
    return now
  elseif wanted(first.name) then
    return look_at
  end
  local waiting = key('waiting', first.name)
  local is_awaited = not paused[first.name] and redis.call('ZCOUNT', waiting, now_text, '+inf') > 0
  if may_exchange and not is_awaited and (#blocked > #some or first_blocked(lane, some)) then
    return look_at
  end
end

-- When the next claim may find a job to exchange, of a lane in which a name is stuck that is not asked for.
local function exchange_at(wanted, blocked, paused)
  local earliest = math.huge
  for _, lane in ipairs((lanes_from(request[6], blocked))) do
    local holder = not lane_limits[lane].is_strict and exchangeable_in(lane, blocked, wanted)
    if holder and is_stuck(holder.name, paused) then
      earliest = math.min(earliest, paused[holder.name] and now or math.max(now, holder.modified + CLAIM_TIME))
    end
  end
  return earliest
end

-- The earliest moment of a timer that belongs to a wanted name. If there are too many others before it, the last one
-- seen is the answer: nothing wanted is due before that.
local function next_due(timer, wanted, blocked, paused)
  -- Overdue members have a newer format, and are not for this client.
  local members = redis.call(
    'ZRANGEBYSCORE', key(timer), '(' .. now_text, '+inf', 'WITHSCORES', 'LIMIT', 0, wanted and 100 or 1)
  local uuids = {}
  for index = 1, #members, 2 do
    uuids[#uuids + 1] = members[index]
  end
  if not wanted then
    return tonumber(members[2])
  end
  fetch(uuids)
  for index, uuid in ipairs(uuids) do
    local job, moment = jobs[uuid], tonumber(members[2 * index])
    if job and wanted(job.name) then
      return moment
    elseif string.byte(uuid) == 10 then
      moment = start_in(string.sub(uuid, 2), moment, wanted, blocked, paused)
      if moment then
        return moment
      end
    end
  end
  return #uuids == 100 and tonumber(members[200]) or nil
end

-- Whether there is a job to claim, also behind jobs of a newer format.
local function is_ready()
  local members, indexes = best_jobs(names, 1, 0)
  local uuids = uuids_of(members)
  fetch(uuids)
  if not newer[uuids[1] or ''] then
    return #indexes > 0
  end
  uuids = uuids_of((best_jobs(names, 1, MAX_SKIPPED)))
  fetch(uuids)
  for _, uuid in ipairs(uuids) do
    if not newer[uuid] then
      return true
    end
  end
  return false
end

local function next_moment()
  local paused, count = paused_names()
  if paused[''] then
    return nil
  end
  if is_ready() then
    return now
  end
  local wanted, blocked = nil, {}
  if names or count > 0 then
    wanted = granted(names, paused)
    blocked = redis.call('EXISTS', key('blocked_lanes')) == 1 and blocked_names(names, paused) or {}
  end
  local lease, delay = next_due('leases', wanted), next_due('delayed', wanted, blocked, paused)
  -- An exchange may let one of them be claimed before anything else happens.
  local poll = #blocked > 0 and now + EXCHANGE_POLL or math.huge
  local exchange = #blocked > 0 and request[6] and exchange_at(wanted, blocked, paused) or math.huge
  local moment = math.min(lease or math.huge, delay or math.huge, poll, exchange)
  return moment < math.huge and moment or nil, #blocked
end

local moment, blocked_count = next_moment()
if relatives.is_unfinished and moment ~= now then
  -- Children of jobs that have ended may be claimable in a moment.
  return {'MORE'}
end
local withdrawn = arm_anew(request, moment)
return {'OK', moment and math.max(0, moment - now) or -1, withdrawn, blocked_count or 0}
