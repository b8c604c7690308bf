#!lua flags=allow-oom
-- Cancel jobs that are not claimed, and mark claimed ones, so that their owners end them.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, ...]; 2 msgpack [who or nil, reason or nil, both in one text for the owners or nil]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each CANCELLED, ASKED, REPEATED or MISSING
-- A repeat finds the mark, or the cancelled job, which is kept as `done:<uuid>`.
--
-- include: items

local said = cmsgpack.unpack(ARGV[2])
return answer_each(ARGV[1], function(uuid)
  local job = expire_or_promote(load_any(uuid))
  if job and job.state == 'CLAIMED' then
    if not job.cancel then
      job.cancel = true
      record_event(job, 'CANCEL_ASKED', job.owner, job.token, said[3])
    end
    return 'ASKED'
  end
  if job and is_live(job) then
    cancel(job, said[1], nil, said[2])
    return 'CANCELLED'
  end
  return job and has_entry(job, {CANCELLED = true}) and 'REPEATED' or 'MISSING'
end)
