#!lua flags=allow-oom
-- Break the claim that has this token.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, token, reason]
-- Returns: NEWER and the uuid, if it is of a newer format, or OK, and DONE, REPEATED or LOST
-- A repeat finds the token in the history.
--
-- include: settle
-- include: steps

settle('50')

local request = cmsgpack.unpack(ARGV[1])
local token, reason = request[2], request[3]
local job = settle_job(recall(request[1]))
if newer[request[1]] then
  return {'NEWER', request[1]}
end
local answer
if not job or job.state ~= 'CLAIMED' or job.token ~= token then
  answer = job and has_line(job, {RELEASED = true}, token) and 'REPEATED' or 'LOST'
else
  answer = 'DONE'
  job.reason = reason
  if job.cancel then
    tell(job, 'RELEASED', job.owner, token, reason)
    take_off(job, nil, token)
  else
    put_back(job, 'RELEASED', reason)
  end
end
flush()
return {'OK', answer}
