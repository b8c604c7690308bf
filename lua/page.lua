-- Read the next jobs in claim order.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [states, names or nil for all, the place after which to begin or nil, how many]
-- Returns: MORE (call again), or OK, the next place (an empty string at the end), and the jobs (maybe fewer than
--       asked for)
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote
-- include: page_jobs

if expire_and_promote('100') then
  return {'MORE'}
end

local request = cmsgpack.unpack(ARGV[1])
local states, names, after, size = request[1], request[2], request[3], request[4]
local indexes = {}
for _, name in ipairs(names or redis.call('ZRANGE', key('names'), 0, -1)) do
  for _, state in ipairs(states) do
    indexes[#indexes + 1] = state_index(state, name)
  end
end
return page_jobs(indexes, after, size, function(job) return not is_hidden(job) end)
