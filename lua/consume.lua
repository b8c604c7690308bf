#!lua flags=allow-oom
-- Complete jobs under their claims.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, who, token, retention in microseconds or nil for ever, result or nil], ...]
-- Returns: OK, and for each DONE, REPEATED or LOST
-- A repeat finds owner and token in the completed record, `done:<uuid>`.
--
-- include: settle
-- include: holds
-- include: prune

settle('50')

local ends = cmsgpack.unpack(ARGV[1])
heed(ends)
local answers = {}
for index, item in ipairs(ends) do
  local job = held_by(item)
  if job then
    complete(job, item[5], item[4])
    answers[index] = 'DONE'
  else
    job = recall(item[1])
    local mine = job and job.state == 'COMPLETE' and job.owner == item[2] and job.token == item[3]
    answers[index] = mine and 'REPEATED' or 'LOST'
  end
end
flush()
-- At full speed more is completed than a tidy now and then could forget. One by one, some calls do it for the others.
if #ends > 8 or now % 8 == 0 then
  prune(16 * #ends)
end
return {'OK', answers}
