-- Find the jobs that are claimed under a claim id, a part of the claimed jobs at a time.
--
-- KEYS: 1 the board
-- ARGV: 1 claim id; 2 the place after which to search, or an empty string
-- Returns: OK, the next place (or an empty string at the end), and the jobs found, best first
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote
-- include: merge_indexes
-- include: job_rows

expire_and_promote('50')

if redis.call('EXISTS', key('owner', ARGV[1])) == 0 then
  return {'OK', '', {}}
end

local CHUNK = 400
local indexes = {}
for index, name in ipairs(redis.call('ZRANGE', key('names'), 0, -1)) do
  indexes[index] = state_index('CLAIMED', name)
end
local members, last = merge_indexes(indexes, ARGV[2] ~= '' and ARGV[2] or nil, CHUNK)
local uuids = uuids_of(members)
fetch(uuids)
local found = {}
for _, uuid in ipairs(uuids) do
  local job = expire_or_promote(jobs[uuid])
  if job and job.state == 'CLAIMED' and job.claim_id == ARGV[1] then
    found[#found + 1] = job
  end
end
write_back()
return {'OK', #uuids == CHUNK and last or '', job_rows(found)}
