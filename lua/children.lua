-- Read the next edges to the children of jobs.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[parent, the child after which to begin (an empty string at first)], ...]; 2 how many of each
-- Returns: OK, and of each parent the cursor (an empty string at the end), its name, and of each edge (maybe fewer
--       than asked for) the child and how the parent has ended
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote

expire_and_promote('50')

local wanted, size, parents = cmsgpack.unpack(ARGV[1]), tonumber(ARGV[2]), {}
for number, each in ipairs(wanted) do
  parents[number] = each[1]
end
fetch(parents)
fetch_finished(parents)

local function page_of(parent, last)
  local from = last == '' and '-' or '(' .. last
  local children = redis.call('ZRANGEBYLEX', key('children', parent), from, '+', 'LIMIT', 0, size)
  fetch(children)
  fetch_finished(children)
  local its, edges = jobs[parent], {}
  for _, child in ipairs(children) do
    if jobs[child] then
      local value = redis.call('HGET', key('ends', child), parent)
      local outcome = value and ending_in(value, parent)[1] or 'OPEN'
      edges[#edges + 1], edges[#edges + 2] = child, outcome
    end
  end
  return {#children == size and children[size] or '', its and its.name or '', edges}
end

local pages = {}
for number, each in ipairs(wanted) do
  pages[number] = page_of(each[1], each[2])
end
return {'OK', pages}
