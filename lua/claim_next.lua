#!lua flags=allow-oom
-- Claim the best unclaimed jobs.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [who, claim id, expiry in microseconds or nil for never, limit, names or nil for all, where the last
--       search for exchanges ended or nil]
-- Returns: MORE (call again; nothing was claimed), or OK, the jobs, best first, the uuid of a job of a newer format
--       that was skipped, or false; and if it looked for exchanges, where that ended
-- The client does not repeat it: after a lost reply it calls claimed_under.lua first.
--
-- include: claim_plainly

local answer = claim_plainly(cmsgpack.unpack(ARGV[1]))
if answer then
  return answer
end

-- include: expire_and_promote
-- include: job_rows
-- include: exchange

if expire_and_promote('100') then
  return {'MORE'}
end

local request = cmsgpack.unpack(ARGV[1])
local who, claim_id, expiry, limit, names = request[1], request[2], request[3], request[4], request[5]

-- Remove members that are no unclaimed jobs from the indexes, or they would hide the jobs behind them.
local function remove_orphans(orphans, indexes)
  for _, name in ipairs(indexes) do
    if #orphans > 0 then
      redis.call('ZREM', name, unpack(orphans))
    end
    set_head(string.sub(name, #state_index('UNCLAIMED', '') + 1))
  end
end

-- Claim up to the limit of these jobs; returns whether there were orphans, and the first job of a newer format.
local function claim_some(members, indexes, rooms, claimed)
  local orphans, skipped = {}, nil
  for number, uuid in ipairs(uuids_of(members)) do
    local job = jobs[uuid]
    if newer[uuid] then
      skipped = skipped or uuid
    elseif not job or job.state ~= 'UNCLAIMED' then
      orphans[#orphans + 1] = members[number]
    elseif #claimed < limit and (rooms[job.name] or 1) > 0 then
      rooms[job.name] = rooms[job.name] and rooms[job.name] - 1
      claim(job, who, claim_id, expiry)
      claimed[#claimed + 1] = job
    end
  end
  write_back()
  local found_orphans = #orphans > 0 or #members == 0 and #indexes > 0
  if found_orphans then
    remove_orphans(orphans, indexes)
  end
  return found_orphans, skipped
end

-- Orphans and jobs of a newer format can hide others: a second and a third round read more.
local claimed, orphans, skipped = {}, false, nil
for round = 1, 3 do
  local members, indexes, rooms = best_jobs(names, limit - #claimed, round > 1 and MAX_SKIPPED or 0)
  fetch(uuids_of(members))
  local newest
  orphans, newest = claim_some(members, indexes, rooms, claimed)
  skipped = skipped or newest
  if #claimed == limit or not orphans and not (newest and round == 1) then
    break
  end
end
if #claimed == 0 and (orphans or relatives.is_unfinished) then
  return {'MORE'}
end
local reached
if #claimed < limit and may_exchange() then
  reached = exchange(names, limit - #claimed, request[6] or 0, function(job)
    claim(job, who, claim_id, expiry)
    claimed[#claimed + 1] = job
  end)
end
return {'OK', job_rows(claimed), skipped or false, reached}
