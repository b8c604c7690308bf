#!lua flags=allow-oom
-- Tell when the next job can be claimed. If there is none now, arm the waiter; whatever changes the answer wakes it.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [names or nil for all, the waiter ("client/number") or nil, how long it sleeps at most, with what
--       claim request, as in claim_next.lua, or nil, and whether to send an empty message if it is armed]
-- Returns: MORE (call again), or OK; the microseconds until a job may be claimable (0 is now, -1 unknown); and the
--       claim id with which the waiter was armed until now, or false
-- A repeat arms the same waiter again.
--
-- include: look_plainly

local answer = look_plainly(cmsgpack.unpack(ARGV[1]))
if answer then
  return answer
end

-- include: expire_and_promote
-- include: rescue

if expire_and_promote('100') then
  return {'MORE'}
end
rescue_claims()
forget_gone()

-- While jobs of its names are BLOCKED, a waiter looks this often.
local EXCHANGE_POLL = 1000000

local request = cmsgpack.unpack(ARGV[1])
local names = request[1]

-- The job that waits first for the lane of a timer.
local function first_of_lane(timer)
  local member = string.byte(timer) == 10 and redis.call('ZRANGE', key('lane', string.sub(timer, 2)), 0, 0)[1]
  return member and load(string.sub(member, 13))
end

-- The earliest moment of a timer that belongs to a wanted name. If there are too many others before it, the last one
-- seen is the answer: nothing wanted is due before that.
local function next_due(timer, wanted)
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
    local job = jobs[uuid] or first_of_lane(uuid)
    if job and wanted(job.name) then
      return tonumber(members[2 * index])
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

-- Whether a job of a wanted name waits for its lane: an exchange may let it be claimed before anything else happens.
local function may_exchange_soon(paused)
  if redis.call('EXISTS', key('blocked_lanes')) == 0 then
    return false
  end
  for _, name in ipairs(names or {}) do
    if not paused[name] and redis.call('EXISTS', state_index('BLOCKED', name)) == 1 then
      return true
    end
  end
  return not names
end

local function next_moment()
  local paused, count = paused_names()
  if paused[''] then
    return nil
  end
  if is_ready() then
    return now
  end
  local wanted
  if names or count > 0 then
    local chosen = {}
    for _, name in ipairs(names or {}) do
      chosen[name] = true
    end
    wanted = function(name) return not paused[name] and (not names or chosen[name]) end
  end
  local lease, delay = next_due('leases', wanted), next_due('delayed', wanted)
  local poll = may_exchange_soon(paused) and now + EXCHANGE_POLL or math.huge
  local moment = math.min(lease or math.huge, delay or math.huge, poll)
  return moment < math.huge and moment or nil
end

local moment = next_moment()
if relatives.is_unfinished and moment ~= now then
  -- Children of jobs that have ended may be claimable in a moment.
  return {'MORE'}
end
local withdrawn = arm_anew(request, moment)
return {'OK', moment and math.max(0, moment - now) or -1, withdrawn}
