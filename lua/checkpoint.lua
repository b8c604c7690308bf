#!lua flags=allow-oom
-- Replace the checkpoint of a claimed job.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, who, token]; 2 the checkpoint
-- Returns: OK, and DONE, CANCEL_ASKED, LOST or what is lost (see fence.lua)
-- A repeat writes the same again.
--
-- include: expire_and_promote
-- include: fence

expire_and_promote('50')

local fence = cmsgpack.unpack(ARGV[1])
check_fences({fence})
local job = fenced_job(fence)
if job then
  redis.call('HSET', key('checkpoints'), job.uuid, ARGV[2])
  job.checkpoint = true
  announce_change(job, 'CHECKPOINTED')
end
write_back()
return {'OK', not job and lost(load_any(fence[1])) or job.cancel and 'CANCEL_ASKED' or 'DONE'}
