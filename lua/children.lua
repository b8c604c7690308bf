-- Read the next edges to the children of a job.
--
-- KEYS: 1 the board
-- ARGV: 1 the parent; 2 the child after which to begin (an empty string at first); 3 how many
-- Returns: OK, the cursor (an empty string at the end), the parent's name, and of each edge (maybe fewer than asked
--       for) the child and how the parent has ended
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote

expire_and_promote('50')

local parent, size = ARGV[1], tonumber(ARGV[3])
local children = redis.call(
  'ZRANGEBYLEX', key('children', parent), ARGV[2] == '' and '-' or '(' .. ARGV[2], '+', 'LIMIT', 0, size)
fetch(children)
fetch_finished(children)
local its, edges = load_any(parent), {}
for _, child in ipairs(children) do
  if jobs[child] then
    local value = redis.call('HGET', key('ends', child), parent)
    local outcome = value and ending_in(value, parent)[1] or 'OPEN'
    edges[#edges + 1], edges[#edges + 2] = child, outcome
  end
end
return {'OK', #children == size and children[size] or '', its and its.name or '', edges}
