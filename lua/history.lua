-- Read the history of a job.
--
-- KEYS: 1 the board
-- ARGV: 1 uuid
-- Returns: MISSING, or OK and the entries: kind, moment, owner, token and reason of each, in msgpack, one after another
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote

expire_and_promote('50')

local job = expire_or_promote(load_any(ARGV[1]))
write_back()
if not job or is_hidden(job) then
  return {'MISSING'}
end
return {'OK', histories[ARGV[1]]}
