#!lua flags=allow-oom
-- Take jobs that are not claimed off the board, and mark those that are.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, ...]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each CANCELLED, ASKED, REPEATED or MISSING
-- A repeat finds the mark, or the cancelled job, which is remembered as `done:<uuid>`.
--
-- include: settle

settle('50')

local uuids = cmsgpack.unpack(ARGV[1])
fetch(uuids)
if newer_of(uuids) then
  return {'NEWER', newer_of(uuids)}
end
local answers = {}
for index, uuid in ipairs(uuids) do
  local job = settle_job(recall(uuid))
  if job and job.state == 'CLAIMED' then
    if not job.cancel then
      job.cancel = true
      tell(job, 'CANCEL_ASKED', job.owner, job.token)
    end
    answers[index] = 'ASKED'
  elseif job and is_live(job) then
    take_off(job)
    answers[index] = 'CANCELLED'
  else
    answers[index] = job and has_line(job, {CANCELLED = true}) and 'REPEATED' or 'MISSING'
  end
end
flush()
return {'OK', answers}
