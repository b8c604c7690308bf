#!lua flags=allow-oom
-- Delete jobs from the trash for good.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, ...]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each DONE or MISSING
-- A repeat finds nothing, and answers MISSING.
--
-- include: items

expire_and_promote('50')

local uuids = cmsgpack.unpack(ARGV[1])
fetch(uuids)
local unknown = first_newer(uuids)
if unknown then
  return {'NEWER', unknown}
end
local answers = {}
for index, uuid in ipairs(uuids) do
  local job = load(uuid)
  if job and job.state == 'TRASHED' then
    for _, hash in ipairs({'records', 'listings', 'checkpoints', 'progress'}) do
      redis.call('HDEL', key(hash), uuid)
    end
    redis.call('ZREM', state_index('TRASHED', job.name), uuid)
    jobs[uuid] = false
    announce('PURGED', uuid, job.name, history_entry('PURGED'))
    answers[index] = 'DONE'
  else
    answers[index] = 'MISSING'
  end
end
write_back()
return {'OK', answers}
