#!lua flags=allow-oom
-- Delete jobs from the trash for good.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, ...]; 2 msgpack [who or nil, reason or nil]
-- Returns: NEWER and the uuid, if one is of a newer format, or OK, and for each DONE or MISSING
-- A repeat finds nothing, and answers MISSING.
--
-- include: items

-- How many parents are left that may forget their children; what is left of others is deleted later.
local parents_left = 1000
local said = cmsgpack.unpack(ARGV[2])
return answer_each(ARGV[1], function(uuid)
  local job = load(uuid)
  if not job or job.state ~= 'TRASHED' then
    return 'MISSING'
  end
  for _, hash in ipairs({'jobs', 'listings', 'checkpoints', 'progress'}) do
    redis.call('HDEL', key(hash), uuid)
  end
  redis.call('ZREM', state_index('TRASHED', job.name), member_of(uuid, job.sequence))
  if job.is_tied then
    if job.has_children then
      table.insert(relatives.steps, {uuid, 'GONE', job.name, false, false})
      relatives.is_awaited = true
    end
    if job.has_keys then
      redis.call('DEL', key('steps', uuid), key('signals', uuid))
      if parents_left > 0 then
        -- Its children are to be told first.
        local _, parents = delete_keys(uuid, true)
        parents_left = parents_left - parents
      end
      redis.call('ZADD', key('own_keys'), now_text, uuid)
    end
    redis.call('ZREM', key('delayed'), uuid)
  end
  jobs[uuid] = false
  announce('PURGED', uuid, job.name, history_entry('PURGED', said[1], nil, said[2]))
  return 'DONE'
end)
