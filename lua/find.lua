-- Find the live job of a name that has a key.
--
-- KEYS: 1 the board
-- ARGV: 1 name; 2 key
-- Returns: MISSING, or OK and the job
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote
-- include: job_rows

expire_and_promote('50')

local uuid = redis.call('HGET', key('keys'), field(ARGV[1], ARGV[2]))
local job = uuid and expire_or_promote(load(uuid))
write_back()
if not job or not is_live(job) then
  return {'MISSING'}
end
return {'OK', job_rows({job})}
