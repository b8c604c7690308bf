-- Read the next jobs in claim order.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [states, names or nil for all, the place after which to begin or nil, how many]
-- Returns: MORE (call again), or OK, the next place (an empty string at the end), and the jobs (maybe fewer than
--       asked for)
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote
-- include: merge_indexes
-- include: job_rows

if expire_and_promote('100') then
  return {'MORE'}
end

local MAX_PAGE_BYTES = 1048576
local request = cmsgpack.unpack(ARGV[1])
local states, names, after, size = request[1], request[2], request[3], request[4]
local indexes = {}
for _, name in ipairs(names or redis.call('ZRANGE', key('names'), 0, -1)) do
  for _, state in ipairs(states) do
    indexes[#indexes + 1] = state_index(state, name)
  end
end
local uuids, last = merge_indexes(indexes, after, size)
fetch(uuids)
fetch_finished(uuids)
local found = {}
for _, uuid in ipairs(uuids) do
  local job = jobs[uuid]
  if job and not is_hidden(job) then
    found[#found + 1] = job
  end
end
-- Large jobs make a page shorter.
local rows, count = job_rows_within(found, MAX_PAGE_BYTES)
if count < #found then
  return {'OK', found[count].place, rows}
end
return {'OK', #uuids == size and last or '', rows}
