-- Find the jobs that are claimed under a claim id, a part of the claimed jobs at a time.
--
-- KEYS: 1 the board
-- ARGV: 1 claim id; 2 the place after which to look, or an empty string
-- Returns: OK, where to go on (or an empty string at the end), and the jobs found, best first
-- Changes nothing but what time has changed.
--
-- include: settle
-- include: merge
-- include: show

settle('50')

local CHUNK = 400
local orders = {}
for index, name in ipairs(redis.call('ZRANGE', key('names'), 0, -1)) do
  orders[index] = order('CLAIMED', name)
end
local uuids, last = merge(orders, ARGV[2] ~= '' and ARGV[2] or nil, CHUNK)
fetch(uuids)
local found = {}
for _, uuid in ipairs(uuids) do
  local job = settle_job(jobs[uuid])
  if job and job.state == 'CLAIMED' and job.claim_id == ARGV[1] then
    found[#found + 1] = job
  end
end
flush()
return {'OK', #uuids == CHUNK and last or '', show(found)}
