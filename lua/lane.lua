-- Count the jobs of a lane, and read some of those that hold its slots.
--
-- KEYS: 1 the board
-- ARGV: 1 the lane; 2 how many jobs
-- Returns: OK; what lane_rows.lua tells; the microseconds until its rate admits another job, or -1 without a rate; and
--       the jobs: claimed ones, claimable ones, and those that are retrying
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote
-- include: job_rows
-- include: lane_rows

expire_and_promote('50')

local lane = ARGV[1]
local found = {}
for _, set in ipairs(ARGV[2] ~= '0' and {'held', 'retrying'} or {}) do
  local uuids = uuids_of(redis.call('ZRANGE', key(set, lane), 0, ARGV[2] - 1))
  fetch(uuids)
  for _, uuid in ipairs(uuids) do
    if #found < tonumber(ARGV[2]) then
      found[#found + 1] = jobs[uuid] or nil
    end
  end
end
fetch_limits({lane})
local rate, next_in = lane_limits[lane].rate, -1
if rate then
  local next_at = tonumber(redis.call('ZSCORE', key('rates'), lane) or 0)
  next_in = math.max(0, math.ceil(next_at - (rate.burst - 1) * rate.interval - now))
end
return {'OK', lane_row(lane), next_in, job_rows(found)}
