-- Read the next edges to the parents of jobs.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[child, the parent after which to begin (an empty string at first)], ...]; 2 how many of each
-- Returns: OK, and of each child the cursor (an empty string at the end), and of each edge (maybe fewer than asked for,
--       but one if there is one) the parent, how it has ended, its name, its result or nil, and whether that is cut
--       (1 or 0)
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote

-- Of all results that are read, but for those of the first edges.
local MAX_BYTES = 1048576

expire_and_promote('50')

local wanted, size, bytes, open = cmsgpack.unpack(ARGV[1]), tonumber(ARGV[2]), 0, {}

local function page_of(child, last)
  local from = last == '' and '-' or '(' .. last
  local parents = redis.call('ZRANGEBYLEX', key('parents', child), from, '+', 'LIMIT', 0, size)
  local edges = {}
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
  local is_end = #edges == #parents and #parents < size
  return {is_end and '' or edges[#edges][1], edges}
end

local pages = {}
for number, each in ipairs(wanted) do
  pages[number] = page_of(each[1], each[2])
end
fetch(open)
for _, page in ipairs(pages) do
  for _, edge in ipairs(page[2]) do
    local job = edge[2] == 'OPEN' and jobs[edge[1]]
    edge[3] = job and job.name or edge[3]
  end
end
return {'OK', pages}
