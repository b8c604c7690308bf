#!lua flags=allow-oom
-- Move jobs from the trash back to the board, at their old place, with no attempts used.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, who or nil, reason or nil], ...]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each DONE, REPEATED, TAKEN or MISSING
-- A repeat finds the entry in the history.
--
-- include: items

return answer_each(ARGV[1], function(item)
  local job = load_any(item[1])
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
  job.state = 'UNCLAIMED'
  record_event(job, 'RESTORED', item[2], nil, item[3])
  -- Of two jobs with one key in a batch, the later one must find the key taken.
  write_back()
  return 'DONE'
end)
