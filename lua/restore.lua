#!lua flags=allow-oom
-- Move jobs from the trash back to the board, as jobs that become due now, with no attempts used.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, ...]; 2 msgpack [who or nil, reason or nil]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each DONE, REPEATED, TAKEN or MISSING
-- A repeat finds the entry in the history.
--
-- include: items

local said = cmsgpack.unpack(ARGV[2])
return answer_each(ARGV[1], function(uuid)
  local job = load_any(uuid)
  if not job then
    return 'MISSING'
  end
  if job.state ~= 'TRASHED' then
    return has_entry(job, {RESTORED = true}) and 'REPEATED' or 'MISSING'
  end
  if job.key and redis.call('HEXISTS', key('keys'), field(job.name, job.key)) == 1 then
    return 'TAKEN'
  end
  job.attempts, job.reason, job.cancel = 0, nil, nil
  -- It is claimable now; a delay that is not over must not come back with the next abandon.
  if job.run_at and job.run_at > now then
    job.run_at = nil
  end
  -- It would go to the trash again; and it runs before it waits for a signal again.
  if job.start_by and job.start_by <= math.max(now, job.modified) then
    job.start_by = nil
  end
  job.signal = nil
  if job.has_parents and job.if_failed == 'cancel' then
    -- The next look at a parent in the trash would cancel it.
    job.if_failed = nil
  end
  join(job, place_of(now, job.priority))
  if job.is_tied then
    follow_end(job)
  end
  record_event(job, 'RESTORED', said[1], nil, said[2])
  -- Of two jobs with one key in a batch, the later one must find the key taken.
  write_back()
  return 'DONE'
end)
