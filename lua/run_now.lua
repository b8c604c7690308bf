#!lua flags=allow-oom
-- Let delayed jobs be claimable ahead of their time.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, who or nil], ...]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each DONE, REPEATED or LOST
-- A repeat finds a live job that is not delayed.
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
  elseif job.state ~= 'DELAYED' then
    answers[index] = 'REPEATED'
  else
    -- The delay must not come back with the next abandon.
    job.run_at, job.state = nil, 'UNCLAIMED'
    record_event(job, 'DUE', item[2], nil, 'ahead of its time')
    answers[index] = 'DONE'
  end
end
write_back()
return {'OK', answers}
