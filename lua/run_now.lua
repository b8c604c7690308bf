#!lua flags=allow-oom
-- Let delayed jobs be claimable ahead of their time.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, ...]; 2 msgpack [who or nil, reason]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each DONE, REPEATED or LOST
-- A repeat finds a live job that is not delayed.
--
-- include: items

local said = cmsgpack.unpack(ARGV[2])
return answer_each(ARGV[1], function(uuid)
  local job = expire_or_promote(load_any(uuid))
  if not job or not is_live(job) then
    return 'LOST'
  end
  if job.state ~= 'DELAYED' then
    return 'REPEATED'
  end
  -- The delay must not come back with the next abandon.
  job.run_at = nil
  end_delay(job, place_of(now, job.priority))
  record_event(job, 'DUE', said[1], nil, said[2])
  return 'DONE'
end)
