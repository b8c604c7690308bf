#!lua
-- Write a step down under a claim.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, who, token]; 2 its number; 3 its name; 4 its result
-- Returns: OK, and DONE, CANCEL_ASKED, LOST or what is lost (see fence.lua)
-- A repeat writes the same again.
--
-- `steps:UUID` (a list) has of each step of a job name, moment and result; its number is its place.
--
-- include: expire_and_promote
-- include: fence

expire_and_promote('50')

local fence, number = cmsgpack.unpack(ARGV[1]), tonumber(ARGV[2])
check_fences({fence})
local job = fenced_job(fence)
if job then
  take_keys(job)
  local steps = key('steps', job.uuid)
  local count = redis.call('RPUSH', steps, cmsgpack.pack(ARGV[3], now, ARGV[4])) - 1
  if count > number then
    -- A repeat, maybe a late one: what came after it stays.
    redis.call('RPOP', steps)
    redis.call('LSET', steps, number, cmsgpack.pack(ARGV[3], now, ARGV[4]))
  end
end
write_back()
return {'OK', not job and lost(load_any(fence[1])) or job.cancel and 'CANCEL_ASKED' or 'DONE'}
