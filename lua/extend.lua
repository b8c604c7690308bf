#!lua flags=allow-oom
-- Let claims expire `expiry` from now.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, who, token, expiry in microseconds or nil for never, progress or nil], ...]
-- Returns: OK, and for each DONE, CANCEL_ASKED, LOST or what is lost (see fence.lua)
-- A repeat only moves the end on.
--
-- include: expire_and_promote
-- include: fence

expire_and_promote('50')

local ends = cmsgpack.unpack(ARGV[1])
check_fences(ends)
local answers = {}
for index, item in ipairs(ends) do
  local job = fenced_job(item)
  if job then
    job.expires = item[4] and now + item[4] or nil
    if item[5] then
      redis.call('HSET', key('progress'), job.uuid, item[5])
      job.progress = true
    end
    announce_change(job, 'EXTENDED')
  end
  answers[index] = not job and lost(load_any(item[1])) or job.cancel and 'CANCEL_ASKED' or 'DONE'
end
write_back()
return {'OK', answers}
