#!lua flags=allow-oom
-- Give jobs that wait another priority.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, ...]; 2 msgpack [priority, who or nil, reason or nil]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each DONE, REPEATED or LOST
-- A repeat finds a live job that has this priority.
--
-- include: items

local wish = cmsgpack.unpack(ARGV[2])
local priority = wish[1]
return answer_each(ARGV[1], function(uuid)
  local job = expire_or_promote(load_any(uuid))
  if not job or not is_live(job) then
    return 'LOST'
  end
  if job.priority == priority then
    return 'REPEATED'
  end
  if job.state == 'CLAIMED' then
    return 'LOST'
  end
  job.place = job.place + (job.priority - priority) * PLACES_OF_PRIORITY
  job.priority, job.place = priority, string.format('%.0f', job.place)
  moved[job.uuid] = true
  record_event(job, 'REPRIORITIZED', wish[2], nil, wish[3])
  return 'DONE'
end)
