#!lua flags=allow-oom
-- Give jobs that wait another priority.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, priority, who or nil, reason or nil], ...]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each DONE, REPEATED or LOST
-- A repeat finds a live job that has this priority.
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
  if not job or not is_live(job) then
    answers[index] = 'LOST'
  elseif job.priority == item[2] then
    answers[index] = 'REPEATED'
  elseif job.state == 'CLAIMED' then
    answers[index] = 'LOST'
  else
    job.priority = item[2]
    set_place(job)
    moved[job.uuid] = true
    record_event(job, 'REPRIORITIZED', item[3], nil, item[4])
    answers[index] = 'DONE'
  end
end
write_back()
return {'OK', answers}
