-- Read the history of a job.
--
-- KEYS: 1 the board
-- ARGV: 1 uuid
-- Returns: MISSING, or OK and the lines: kind, moment, owner, token and reason of each, in msgpack, one after the other
-- Changes nothing but what time has changed.
--
-- include: settle

settle('50')

local job = settle_job(recall(ARGV[1]))
flush()
if not job or is_hidden(job) then
  return {'MISSING'}
end
return {'OK', histories[ARGV[1]]}
