#!lua flags=allow-oom
-- Bring jobs back from the trash, at their old place, with no attempts used.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, ...]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each DONE, REPEATED, TAKEN or MISSING
-- A repeat finds the restoring in the history.
--
-- include: settle
-- include: steps

settle('50')

local uuids = cmsgpack.unpack(ARGV[1])
fetch(uuids)
if newer_of(uuids) then
  return {'NEWER', newer_of(uuids)}
end

local function restore(job)
  if not job then
    return 'MISSING'
  end
  if job.state ~= 'TRASHED' then
    return has_line(job, {RESTORED = true}) and 'REPEATED' or 'MISSING'
  end
  if job.key and redis.call('HEXISTS', key('keys'), field(job.name, job.key)) == 1 then
    return 'TAKEN'
  end
  job.attempts, job.reason, job.cancel = 0, nil, nil
  -- Whoever brings it back wants it now: a delay that isn't over must not come back with the next abandon.
  if job.run_at and job.run_at > now then
    job.run_at = nil
  end
  job.state = 'UNCLAIMED'
  tell(job, 'RESTORED')
  -- Two with one key in one batch: the later one must find it taken.
  flush()
  return 'DONE'
end

local answers = {}
for index, uuid in ipairs(uuids) do
  answers[index] = restore(recall(uuid))
end
return {'OK', answers}
