#!lua flags=allow-oom
-- Complete jobs under their claims.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, who, token, retention in microseconds, result or false, and so on]
-- Returns: OK, and for each DONE, REPEATED, LOST or what is lost (see fence.lua)
-- A repeat finds owner and token in the completed record, `done:<uuid>`.
--
-- include: consume_plainly

local request = cmsgpack.unpack(ARGV[1])
local answer, with_keys = consume_plainly(request)
if answer and with_keys == 0 then
  return answer
end

-- include: own_keys

if answer then
  forget_keys(2 * with_keys)
  return answer
end

-- include: expire_and_promote
-- include: fence

expire_and_promote('50')

local ends = {}
for at = 1, #request, END_PARTS do
  ends[#ends + 1] = {unpack(request, at, at + END_PARTS - 1)}
end
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
    answers[index] = mine and 'REPEATED' or lost(job)
  end
end
write_back()
prune_after(#ends)
return {'OK', answers}
