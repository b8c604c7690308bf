#!lua flags=allow-oom
-- Complete jobs under their claims.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, who, token, retention in microseconds or nil for ever, result or nil], ...]
-- Returns: OK, and for each DONE, REPEATED or LOST
-- A repeat finds owner and token in the completed record, `done:<uuid>`.
--
-- include: expire_and_promote
-- include: fence
-- include: prune_completed

expire_and_promote('50')

local ends = cmsgpack.unpack(ARGV[1])
check_fences(ends)
local answers = {}
for index, item in ipairs(ends) do
  local job = fenced_job(item)
  if job then
    consume(job, item[5], item[4])
    answers[index] = 'DONE'
  else
    job = load_any(item[1])
    local mine = job and job.state == 'COMPLETE' and job.owner == item[2] and job.token == item[3]
    answers[index] = mine and 'REPEATED' or 'LOST'
  end
end
write_back()
-- At full speed more jobs are completed than `tidy` could remove. Of single calls, one in eight prunes for all.
if #ends > 8 or now % 8 == 0 then
  prune_completed(16 * #ends)
end
return {'OK', answers}
