-- include: changes
-- Jobs as the client gets them: for each its record, posting, checkpoint, progress and result, one after the other.

local function show(list)
  local uuids, shown = {}, {}
  for index, job in ipairs(list) do
    uuids[index] = job.uuid
  end
  local postings = #uuids > 0 and redis.call('HMGET', key('listings'), unpack(uuids)) or {}
  for index, job in ipairs(list) do
    local uuid, parts = job.uuid, finished[job.uuid]
    local at = index * 5
    shown[at - 4] = packed[uuid] or fold(job)
    if parts then
      shown[at - 3], shown[at - 2], shown[at - 1], shown[at] = unpack(parts)
    else
      shown[at - 3] = postings[index] or bodies[uuid] or ''
      shown[at - 2] = job.checkpoint and redis.call('HGET', key('checkpoints'), uuid) or false
      shown[at - 1] = job.progress and redis.call('HGET', key('progress'), uuid) or false
      shown[at] = false
    end
  end
  return shown
end
