#!lua flags=allow-oom
-- Try to own one job.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, who, claim id, expiry in microseconds or nil for never]
-- Returns: MISSING; NEWER and the uuid, for a job of a newer format; or OK and the job as it stands now, which is
--       granted if it has this claim id
-- A repeat finds its own claim id and grants nothing a second time.
--
-- include: settle
-- include: ready
-- include: show

settle('50')

local request = cmsgpack.unpack(ARGV[1])
local uuid = request[1]
local job = settle_job(recall(uuid))
if newer[uuid] then
  return {'NEWER', uuid}
end
if not job or is_hidden(job) then
  return {'MISSING'}
end
if job.state == 'CLAIMED' and redis.call('EXISTS', key('owner', uuid)) == 0 then
  take_back(job)
end
local paused = paused_names()
if job.state == 'UNCLAIMED' and not paused[''] and not paused[job.name] then
  grant(job, request[2], request[3], request[4])
end
flush()
if is_hidden(job) then
  return {'MISSING'}
end
return {'OK', show({job})}
