-- Count the jobs of a lane, and read some of those that hold its slots.
--
-- KEYS: 1 the board
-- ARGV: 1 the lane; 2 how many jobs
-- Returns: OK; what lane_rows.lua tells; the microseconds until its rate admits another job, or -1 without a rate; and
--       the jobs, claimed ones first
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote
-- include: job_rows
-- include: lane_rows

expire_and_promote('50')

local lane = ARGV[1]
local uuids, found = uuids_of(redis.call('ZRANGE', key('held', lane), 0, ARGV[2] - 1)), {}
fetch(uuids)
for _, uuid in ipairs(ARGV[2] ~= '0' and uuids or {}) do
  found[#found + 1] = jobs[uuid] or nil
end
fetch_limits({lane})
local rate, next_in = lane_limits[lane].rate, -1
if rate then
  local next_at = tonumber(redis.call('ZSCORE', key('rates'), lane) or 0)
  next_in = math.max(0, math.ceil(next_at - (rate.burst - 1) * rate.interval - now))
end
return {'OK', lane_row(lane), next_in, job_rows(found)}
