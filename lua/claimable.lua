-- Read the next jobs that can be claimed, in claim order: not those of paused names, nor of a newer format.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [names or nil for all, the place after which to begin or nil, how many]
-- Returns: MORE (call again), or OK, the next place (an empty string at the end), and the jobs (maybe fewer than
--       asked for)
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote
-- include: ready_queue
-- include: page_jobs

if expire_and_promote('100') then
  return {'MORE'}
end

local request = cmsgpack.unpack(ARGV[1])
local names, after, size = request[1], request[2], request[3]
local paused = paused_names()
local indexes = {}
for _, name in ipairs(paused[''] and {} or names or redis.call('ZRANGE', key('names'), 0, -1)) do
  if not paused[name] then
    indexes[#indexes + 1] = state_index('UNCLAIMED', name)
  end
end
return page_jobs(indexes, after, size, function(job) return not newer[job.uuid] end)
