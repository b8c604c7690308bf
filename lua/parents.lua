-- Read the next edges to the parents of a job.
--
-- KEYS: 1 the board
-- ARGV: 1 the child; 2 the parent after which to begin (an empty string at first); 3 how many
-- Returns: OK, the cursor (an empty string at the end), and of each edge (maybe fewer than asked for) the parent, how
--       it has ended, its name, its result or nil, and whether that is cut (1 or 0)
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote

local MAX_BYTES = 1048576

expire_and_promote('50')

local child, size = ARGV[1], tonumber(ARGV[3])
local parents = redis.call(
  'ZRANGEBYLEX', key('parents', child), ARGV[2] == '' and '-' or '(' .. ARGV[2], '+', 'LIMIT', 0, size)
local edges, bytes, open = {}, 0, {}
for number, parent in ipairs(parents) do
  local value = redis.call('HGET', key('ends', child), parent)
  local outcome, name, result, is_cut = unpack(value and ending_in(value, parent) or {'OPEN', '', false, false}, 1, 4)
  edges[number] = {parent, outcome, name, result, is_cut and 1 or 0}
  if not value then
    open[#open + 1] = parent
  end
  bytes = bytes + #(value or '')
  if bytes >= MAX_BYTES then
    break
  end
end
fetch(open)
for _, edge in ipairs(edges) do
  local job = edge[2] == 'OPEN' and jobs[edge[1]]
  edge[3] = job and job.name or edge[3]
end
local is_end = #edges == #parents and #parents < size
return {'OK', is_end and '' or edges[#edges][1], edges}
