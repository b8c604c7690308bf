#!lua flags=allow-oom
-- Replace the checkpoint of a claimed job.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, who, token]; 2 the checkpoint
-- Returns: OK, and DONE, CANCEL_ASKED or LOST
-- A repeat writes the same again.
--
-- include: settle
-- include: holds

settle('50')

local hold = cmsgpack.unpack(ARGV[1])
heed({hold})
local job = held_by(hold)
if job then
  redis.call('HSET', key('checkpoints'), job.uuid, ARGV[2])
  job.checkpoint = true
  touch(job, 'CHECKPOINTED')
end
flush()
return {'OK', not job and 'LOST' or job.cancel and 'CANCEL_ASKED' or 'DONE'}
