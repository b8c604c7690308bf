#!lua flags=allow-oom
-- End the claim that has this token.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, token, reason]
-- Returns: NEWER and the uuid, if it is of a newer format, or OK, and DONE, REPEATED or LOST
-- A repeat finds the token in the history.
--
-- include: expire_and_promote
-- include: transitions

expire_and_promote('50')

local request = cmsgpack.unpack(ARGV[1])
local token, reason = request[2], request[3]
local job = expire_or_promote(load_any(request[1]))
if newer[request[1]] then
  return {'NEWER', request[1]}
end
local answer
if not job or job.state ~= 'CLAIMED' or job.token ~= token then
  answer = job and has_entry(job, {RELEASED = true}, token) and 'REPEATED' or 'LOST'
else
  answer = 'DONE'
  job.reason = reason
  if job.cancel then
    record_event(job, 'RELEASED', job.owner, token, reason)
    cancel(job, nil, token)
  else
    requeue(job, 'RELEASED', reason)
  end
end
write_back()
return {'OK', answer}
