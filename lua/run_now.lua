#!lua flags=allow-oom
-- Let delayed jobs be claimable ahead of their time.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, who or nil, reason], ...]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each DONE, REPEATED or LOST
-- A repeat finds a live job that is not delayed.
--
-- include: items

return answer_each(ARGV[1], function(item)
  local job = expire_or_promote(load_any(item[1]))
  if not job or not is_live(job) then
    return 'LOST'
  end
  if job.state ~= 'DELAYED' then
    return 'REPEATED'
  end
  -- The delay must not come back with the next abandon.
  job.run_at, job.state = nil, 'UNCLAIMED'
  record_event(job, 'DUE', item[2], nil, item[3])
  return 'DONE'
end)
