#!lua flags=allow-oom
-- Give jobs that wait another priority.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, priority, who or nil, reason or nil], ...]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each DONE, REPEATED or LOST
-- A repeat finds a live job that has this priority.
--
-- include: items

return answer_each(ARGV[1], function(item)
  local job = expire_or_promote(load_any(item[1]))
  if not job or not is_live(job) then
    return 'LOST'
  end
  if job.priority == item[2] then
    return 'REPEATED'
  end
  if job.state == 'CLAIMED' then
    return 'LOST'
  end
  job.priority = item[2]
  set_place(job)
  moved[job.uuid] = true
  record_event(job, 'REPRIORITIZED', item[3], nil, item[4])
  return 'DONE'
end)
