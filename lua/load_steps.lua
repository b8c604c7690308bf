-- Read steps of a job.
--
-- KEYS: 1 the board
-- ARGV: 1 uuid; 2 the number of the first; 3 how many
-- Returns: OK, and of each (maybe fewer than asked for) name, moment and result, in msgpack
-- Changes nothing.
--
-- include: remains

local MAX_BYTES = 1048576

if are_remains(ARGV[1]) then
  return {'OK', {}}
end

local first, size = tonumber(ARGV[2]), tonumber(ARGV[3])
local steps, bytes = {}, 0
for from = first, first + size - 1, 20 do
  local some = redis.call('LRANGE', key('steps', ARGV[1]), from, math.min(from + 19, first + size - 1))
  for _, step in ipairs(some) do
    steps[#steps + 1], bytes = step, bytes + #step
  end
  if #some < 20 or bytes > MAX_BYTES then
    break
  end
end
return {'OK', steps}
