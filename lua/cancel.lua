#!lua flags=allow-oom
-- Cancel jobs that are not claimed, and mark claimed ones, so that their owners end them.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, who or nil], ...]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each CANCELLED, ASKED, REPEATED or MISSING
-- A repeat finds the mark, or the cancelled job, which is kept as `done:<uuid>`.
--
-- include: expire_and_promote
-- include: items

expire_and_promote('50')

local items, unknown = load_items(ARGV[1])
if unknown then
  return {'NEWER', unknown}
end
local answers = {}
for index, item in ipairs(items) do
  local job = expire_or_promote(load_any(item[1]))
  if job and job.state == 'CLAIMED' then
    if not job.cancel then
      job.cancel = true
      record_event(job, 'CANCEL_ASKED', job.owner, job.token, item[2] and 'by ' .. item[2])
    end
    answers[index] = 'ASKED'
  elseif job and is_live(job) then
    cancel(job, item[2])
    answers[index] = 'CANCELLED'
  else
    answers[index] = job and has_entry(job, {CANCELLED = true}) and 'REPEATED' or 'MISSING'
  end
end
write_back()
return {'OK', answers}
