-- include: changes
-- Jobs as the client gets them: for each its record, posting, checkpoint, progress and result, one after the other.

-- So many jobs are read at once where there is a limit to their bytes.
local SLICE = 20

-- Put the jobs from `first` to `final` of a list into `shown`; returns how many bytes they are.
local function show_slice(list, first, final, shown)
  local uuids, bytes = {}, 0
  for index = first, final do
    uuids[#uuids + 1] = list[index].uuid
  end
  local postings = #uuids > 0 and redis.call('HMGET', key('listings'), unpack(uuids)) or {}
  for index = first, final do
    local job = list[index]
    local uuid, at = job.uuid, index * 5
    local parts = finished[uuid]
    shown[at - 4] = packed[uuid] or fold(job)
    if parts then
      shown[at - 3], shown[at - 2], shown[at - 1], shown[at] = unpack(parts)
    else
      shown[at - 3] = postings[index - first + 1] or bodies[uuid] or ''
      shown[at - 2] = job.checkpoint and redis.call('HGET', key('checkpoints'), uuid) or false
      shown[at - 1] = job.progress and redis.call('HGET', key('progress'), uuid) or false
      shown[at] = false
    end
    bytes = bytes + #shown[at - 3] + #(shown[at - 2] or '') + #(shown[at] or '')
  end
  return bytes
end

local function show(list)
  local shown = {}
  show_slice(list, 1, #list, shown)
  return shown
end

-- Show the first jobs of a list, and at least one, up to about so many bytes; returns how many it were, too.
local function show_within(list, most)
  local shown, count = {}, 0
  for first = 1, #list, SLICE do
    if most <= 0 then
      break
    end
    count = math.min(first + SLICE - 1, #list)
    most = most - show_slice(list, first, count, shown)
  end
  return shown, count
end
