#!lua flags=allow-oom
-- Claim one job.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, who, claim id, expiry in microseconds or nil for never]
-- Returns: MISSING; NEWER and the uuid, for a job of a newer format; or OK and the job, which is
--       claimed if it has this claim id
-- A repeat finds its own claim id, and claims nothing a second time.
--
-- include: expire_and_promote
-- include: ownerless
-- include: ready_queue
-- include: job_rows

expire_and_promote('50')

local request = cmsgpack.unpack(ARGV[1])
local uuid = request[1]
local job = expire_or_promote(load_any(uuid))
if newer[uuid] then
  return {'NEWER', uuid}
end
if not job or is_hidden(job) then
  return {'MISSING'}
end
if job.state == 'CLAIMED' then
  expire_ownerless({job})
end
if job.lane and is_changed[uuid] then
  -- It may get a slot of its lane.
  write_back()
end
local paused = paused_names()
if job.state == 'UNCLAIMED' and not paused[''] and not paused[job.name] then
  claim(job, request[2], request[3], request[4])
end
write_back()
if is_hidden(job) then
  return {'MISSING'}
end
return {'OK', job_rows({job})}
