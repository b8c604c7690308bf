-- include: writeback
-- Jobs as the client gets them, three parts of each: the record; what follows in it, if it comes in two parts; and the
-- posting, or a list of posting, checkpoint, progress and result if there is any of these.

-- How many jobs are read at once where their bytes are limited.
local SLICE = 20

-- Append the jobs from `first` to `final` of a list to `rows`; returns their bytes.
local function add_rows(list, first, final, rows)
  local uuids, bytes = {}, 0
  for index = first, final do
    uuids[#uuids + 1] = list[index].uuid
  end
  local postings = #uuids > 0 and redis.call('HMGET', key('listings'), unpack(uuids)) or {}
  for index = first, final do
    local job = list[index]
    local uuid, at = job.uuid, index * 3
    local parts = finished[uuid]
    local posting, checkpoint, progress, result
    if parts then
      posting, checkpoint, progress, result = unpack(parts)
    else
      posting = postings[index - first + 1] or bodies[uuid] or ''
      checkpoint = job.checkpoint and redis.call('HGET', key('checkpoints'), uuid)
      progress = job.progress and redis.call('HGET', key('progress'), uuid)
    end
    rows[at - 2], rows[at - 1], rows[at] = packed[uuid] or encode(job), '', posting
    if checkpoint or progress or result then
      rows[at] = {posting, checkpoint or false, progress or false, result or false}
    end
    bytes = bytes + #posting + #(checkpoint or '') + #(result or '')
  end
  return bytes
end

local function job_rows(list)
  local rows = {}
  add_rows(list, 1, #list, rows)
  return rows
end

-- The rows of the first jobs of a list, at least one, up to about `most` bytes; and how many jobs they are.
local function job_rows_within(list, most)
  local rows, count = {}, 0
  for first = 1, #list, SLICE do
    if most <= 0 then
      break
    end
    count = math.min(first + SLICE - 1, #list)
    most = most - add_rows(list, first, count, rows)
  end
  return rows, count
end
